"""OpenAI's Python SDK against the compatible routes of a scripted service. Arguments: the address and the key."""

import sys

import openai

address, key = sys.argv[1:3]
client = openai.OpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0)


def check(name, condition):
    if not condition:
        sys.exit(f"FAILED: {name}")
    print(f"openai  {name:<40} passed")


check("models", [model.id for model in client.models.list()] == ["scripted"])
check("one model", client.models.retrieve("scripted").id == "scripted")

user = [{"role": "user", "content": "hello"}]
whole = client.chat.completions.create(model="scripted", messages=user)
check("a chat completion", whole.choices[0].message.content == "HELLO" and whole.choices[0].finish_reason == "stop")
check("its tokens", whole.usage.prompt_tokens == 12 and whole.usage.completion_tokens == 5)

options = {"include_usage": True}
chunks = list(client.chat.completions.create(model="scripted", messages=user, stream=True, stream_options=options))
text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
check("a stream", text == "HELLO" and chunks[-1].usage.total_tokens == 17)

look = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "look for it"}]
whole = client.chat.completions.create(model="scripted", messages=look, temperature=0.2, max_tokens=50)
check("a run with a tool", whole.choices[0].message.content == "Let me look.\n\nFound it.")
with client.chat.completions.stream(model="scripted", messages=look) as stream:
    final = stream.get_final_completion()
check("the stream helper", final.choices[0].message.content == "Let me look.\n\nFound it.")

image = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}]
whole = client.chat.completions.create(model="scripted", messages=[{"role": "user", "content": image}])
check("an image", whole.choices[0].message.content == "SEE")

first = client.responses.create(model="scripted", input="one")
check("a response", first.output_text == "ONE" and first.status == "completed")
second = client.responses.create(model="scripted", input="two", previous_response_id=first.id)
check("a response that continues it", second.output_text == "TWO")
events = list(client.responses.create(model="scripted", input="three", previous_response_id=second.id, stream=True))
kinds = [event.type for event in events]
check("a stream of events", kinds[0] == "response.created" and kinds[-1] == "response.completed")
check("its text", events[-1].response.output_text == "THREE")
with client.responses.stream(model="scripted", input="look for it") as stream:
    final = stream.get_final_response()
check("the helper of responses", final.output_text == "Let me look.Found it.")


def refused(name, kind, call):
    try:
        call()
    except kind as error:
        check(name, True)
        return error
    check(name, False)


refused("an unknown model", openai.NotFoundError, lambda: client.chat.completions.create(model="gpt", messages=user))
tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
error = refused(
    "tools of the client",
    openai.BadRequestError,
    lambda: client.chat.completions.create(model="scripted", messages=user, tools=tools),
)
check("the parameter is named", error.param == "tools" and error.code == "unsupported_parameter")
refused(
    "an older response",
    openai.BadRequestError,
    lambda: client.responses.create(model="scripted", input="x", previous_response_id=first.id),
)
deploy = [{"role": "user", "content": "deploy it"}]
error = refused(
    "a run that waits",
    openai.UnprocessableEntityError,
    lambda: client.chat.completions.create(model="scripted", messages=deploy),
)
check("it says so", error.code == "answer_required")
refused("another key", openai.AuthenticationError, lambda: client.with_options(api_key="wrong").models.list())
