"""Fold the stream of an LLM into its final message: Anthropic Messages events and chat.completion.chunk deltas."""
