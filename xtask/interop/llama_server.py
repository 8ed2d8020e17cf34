"""Runs llama.cpp's own HTTP server on loopback, until its standard input is closed.

usage: llama_server.py MODEL PORT CONTEXT
"""

import sys

import xllamacpp


def main(model, port, context):
    settings = xllamacpp.CommonParams()
    settings.model.path = model
    settings.hostnames = ["127.0.0.1"]
    settings.port = int(port)
    settings.use_jinja = True
    settings.warmup = False
    # Two at a time, each with its part of the context.
    settings.n_parallel = 2
    settings.n_ctx = 2 * int(context)
    settings.n_batch = settings.n_ubatch = 256
    settings.cpuparams.n_threads = 1
    # The same answer to the same question.
    settings.sampling.seed = 20
    server = xllamacpp.Server(settings)
    print("listening on", server.listening_address, flush=True)
    # Who started this is gone when nothing can be read any more.
    while sys.stdin.read(1):
        pass


if __name__ == "__main__":
    main(*sys.argv[1:])
