"""The tool loop in both formats: fold, run the tool on `input_as`, send `to_request()` and the result, fold again.

The server sees the second request; its assistant turn is what an API takes back.
"""

import json

import anthropic
import attrs
import httpx
import openai
import pytest

from friendli_stream import InvalidInput, chat, messages, sse
from tests.replay_server import ANSWER, CHAT_EVENTS, MESSAGES_EVENTS

QUESTION = {"role": "user", "content": "How is the weather in S\u00e3o Paulo?"}


@attrs.frozen
class GetWeather:
    city: str
    days: int = 1


@attrs.frozen
class GetTime:
    zone: str


TOOLS = {
    "get_weather": (GetWeather, lambda wanted: f"{wanted.days} days of sun in {wanted.city}"),
    "get_time": (GetTime, lambda wanted: f"noon {wanted.zone}"),
}


def run(call):
    kind, tool = TOOLS[call.name]
    return tool(call.input_as(kind))


# The assistant's turn that the streams of the replay server tell, as the next request has it.
MESSAGES_TURN = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "The weather\u2028is asked for.", "signature": "c2lnbmF0dXJl"},
        {"type": "text", "text": ANSWER},
        {
            "type": "tool_use",
            "id": "toolu_replay1",
            "name": "get_weather",
            "input": {"city": "S\u00e3o Paulo", "days": 3},
        },
    ],
}
CHAT_TURN = {
    "role": "assistant",
    "content": ANSWER,
    "reasoning_content": "The weather\u2028is asked for.",
    "tool_calls": [
        {
            "id": "call_0",
            "type": "function",
            "function": {"name": "get_weather", "arguments": '{"city": "S\u00e3o Paulo", "days": 3}'},
        },
        {"id": "call_1", "type": "function", "function": {"name": "get_time", "arguments": '{"zone": "BRT"}'}},
    ],
}


# How a turn is asked for: by an HTTP client, or by an SDK that takes the turn as it stands.


def messages_by_httpx(url, turns):
    body = {"model": "replayed-model", "max_tokens": 64, "stream": True, "messages": turns}
    with httpx.stream("POST", f"{url}/v1/messages", json=body) as response:
        return messages.fold(sse.events(response.iter_bytes()))


def messages_by_sdk(url, turns):
    with anthropic.Anthropic(base_url=url, api_key="none") as client:
        return messages.fold(client.messages.create(model="replayed-model", max_tokens=64, messages=turns, stream=True))


def chat_by_httpx(url, turns):
    body = {"model": "replayed-model", "stream": True, "messages": turns}
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=body) as response:
        return chat.fold(sse.events(response.iter_bytes()))


def chat_by_sdk(url, turns):
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none") as client:
        return chat.fold(client.chat.completions.create(model="replayed-model", messages=turns, stream=True))


@pytest.mark.parametrize("ask", [messages_by_httpx, messages_by_sdk])
def test_messages(server, ask):
    """Two turns in Messages: the thinking with its signature and the tool's input go back with the tool's result."""
    turns = [QUESTION]
    while (message := ask(server.url, turns)).stop_reason == "tool_use":
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": run(call)} for call in message.tool_uses]
        turns += [message.to_request(), {"role": "user", "content": results}]
    assert message.text == "Sunny."
    first, second = server.requests
    assert [QUESTION] == first["messages"]
    result = {"type": "tool_result", "tool_use_id": "toolu_replay1", "content": "3 days of sun in S\u00e3o Paulo"}
    assert [QUESTION, MESSAGES_TURN, {"role": "user", "content": [result]}] == second["messages"]


@pytest.mark.parametrize("ask", [chat_by_httpx, chat_by_sdk])
def test_chat(server, ask):
    """Two turns in chat: parallel calls go back as they came, each answered by a message of its own."""
    turns = [QUESTION]
    while (completion := ask(server.url, turns)).choices[0].finish_reason == "tool_calls":
        turns.append(completion.to_request())
        turns += [{"role": "tool", "tool_call_id": call.id, "content": run(call)} for call in completion.tool_calls]
    assert completion.text == "Sunny."
    _, second = server.requests
    results = [
        {"role": "tool", "tool_call_id": "call_0", "content": "3 days of sun in S\u00e3o Paulo"},
        {"role": "tool", "tool_call_id": "call_1", "content": "noon BRT"},
    ]
    assert [QUESTION, CHAT_TURN, *results] == second["messages"]


@pytest.mark.parametrize(
    ("module", "events"), [(messages, MESSAGES_EVENTS), (chat, CHAT_EVENTS)], ids=["messages", "chat"]
)
def test_input_that_was_cut(module, events):
    """J11, J12: an input that ended early is no tool's input: `input_as` and `to_request` are InvalidInput, with the text."""
    cut = next(i for i, event in enumerate(events) if "S\u00e3o" in json.dumps(event, ensure_ascii=False)) + 1
    state = module.State()
    for event in events[:cut]:
        state = module.step(state, event)
    snapshot = state.snapshot
    call = (snapshot.tool_uses if module is messages else snapshot.tool_calls)[0]
    with pytest.raises(InvalidInput) as caught:
        call.input_as(GetWeather)
    assert ("incomplete", '{"city": "S\u00e3o') == (caught.value.state, caught.value.text)
    with pytest.raises(InvalidInput):
        snapshot.to_request()


def test_input_that_does_not_fit():
    """J11: an input that the tool's class does not take is InvalidInput that names the place."""
    [call] = messages.fold(MESSAGES_EVENTS).tool_uses

    @attrs.frozen
    class Other:
        country: str

    with pytest.raises(InvalidInput, match="country"):
        call.input_as(Other)
