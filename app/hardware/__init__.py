"""The machine: CPU, GPUs, memory, llama.cpp builds for it, and the checks of `tandem doctor`."""
