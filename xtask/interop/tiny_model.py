"""Writes a language model of random weights in the GGUF format: half a megabyte, good for nothing but real server
behaviour: streaming, limits of output and context, grammars, calls of tools.

usage: tiny_model.py FILE
"""

import math
import sys

import gguf
import numpy

WIDTH = 48
HEADS = 4
LAYERS = 2
HIDDEN = 96
CONTEXT = 16384

END = "<|im_end|>"
CALL = "<tool_call>"
LINE = "<0x0A>"

# Logits on top of noise of about one, over a hundred characters: in free text every fortieth token or so ends a reply,
# every twentieth one calls. After a call both are about as likely: the next token calls again, or ends the reply.
NEVER = -12.0
OFTEN = 0.7
OFTENER = 1.2
DONE = 1.7
CERTAIN = 40.0

# What the embedding writes to a dimension that carries a logit: as much as all the others together, so that this
# divided by the root of two is left of it behind the norm at the output.
STRENGTH = math.sqrt(WIDTH)

# ChatML with tools the way Hermes and Qwen write them: the server knows from this how calls look.
TEMPLATE = """\
{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}

{% endif %}# Tools

<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools>

Call a tool with
<tool_call>
{"name": NAME, "arguments": OBJECT}
</tool_call><|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}<|im_start|>user
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{% elif message.role == 'assistant' %}<|im_start|>assistant
{% if message.content %}{{ message.content }}{% endif %}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% elif message.role == 'user' %}<|im_start|>user
{{ message.content }}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def vocabulary():
    """The tokens: (text, score, kind, logit that the model always adds)."""
    kinds = gguf.TokenType
    yield "<unk>", 0.0, kinds.UNKNOWN, NEVER
    for text in ("<s>", "</s>"):
        yield text, 0.0, kinds.CONTROL, NEVER
    yield END, 0.0, kinds.CONTROL, OFTEN
    # These stand in grammars, where marks of the first kind would count as nothing.
    yield CALL, 0.0, kinds.USER_DEFINED, OFTENER
    for text in ("</tool_call>", "<|im_start|>"):
        yield text, 0.0, kinds.USER_DEFINED, NEVER
    for byte in range(256):
        yield f"<0x{byte:02X}>", 0.0, kinds.BYTE, NEVER
    # A grammar is followed piece by piece, so every character that JSON needs is a piece of its own.
    letters = list("etaoinshrldcumfpgwybvkxjqzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;!?-_\"'{}[]()<>/\\")
    words = ["▁", "▁the", "▁sea", "▁wind", "▁tide", "▁and", "▁of", "ß", "ü", "é", "海", "風", "🌊", "⚓"]
    for rank, text in enumerate(words + letters):
        yield text, -1.0 - rank, kinds.NORMAL, 0.0


def main(path):
    tokens = list(vocabulary())
    random = numpy.random.default_rng(20)
    count = len(tokens)

    def weights(*shape, spread=0.2):
        return random.standard_normal(shape, dtype=numpy.float32) * numpy.float32(spread)

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(count)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text for text, _, _, _ in tokens])
    writer.add_token_scores([score for _, score, _, _ in tokens])
    writer.add_token_types([kind for _, _, kind, _ in tokens])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(3)
    writer.add_add_bos_token(True)
    # A grammar begins with what the template ends with, so nothing may be put before it.
    writer.add_add_space_prefix(False)
    writer.add_chat_template(TEMPLATE)

    # Three dimensions of the stream are written by the embedding alone, and so are known at the output: the first is the
    # same for every token and carries what is likely anywhere, the second one says that the last token was CALL, which
    # a new line must follow, the third that it may have been the end of a call.
    embedding, output = weights(count, WIDTH, spread=1.0), weights(count, WIDTH)
    names = [text for text, _, _, _ in tokens]
    embedding[:, :3] = STRENGTH, 0.0, 0.0
    embedding[names.index(CALL), 1] = STRENGTH
    embedding[[names.index(">"), names.index("</tool_call>")], 2] = STRENGTH
    scale = numpy.float32(math.sqrt(2.0) / STRENGTH)
    output[:, 0] = numpy.array([logit for _, _, _, logit in tokens], dtype=numpy.float32) * scale
    output[:, 1:3] = 0.0
    output[names.index(LINE), 1] = CERTAIN * scale
    output[names.index(END), 2] = DONE * scale
    writer.add_tensor("token_embd.weight", embedding)
    writer.add_tensor("output.weight", output)
    writer.add_tensor("output_norm.weight", numpy.ones(WIDTH, dtype=numpy.float32))
    shapes = {
        "attn_q": (WIDTH, WIDTH),
        "attn_k": (WIDTH, WIDTH),
        "attn_v": (WIDTH, WIDTH),
        "attn_output": (WIDTH, WIDTH),
        "ffn_gate": (HIDDEN, WIDTH),
        "ffn_up": (HIDDEN, WIDTH),
        "ffn_down": (WIDTH, HIDDEN),
    }
    for layer in range(LAYERS):
        for name, shape in shapes.items():
            # What a layer adds is little, and nothing to those three dimensions.
            adds = name in ("attn_output", "ffn_down")
            tensor = weights(*shape, spread=0.05 if adds else 0.2)
            if adds:
                tensor[:3] = 0.0
            writer.add_tensor(f"blk.{layer}.{name}.weight", tensor)
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", numpy.ones(WIDTH, dtype=numpy.float32))

    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
