# The CUDA sources, listed once: compiled by nvcc (kernels/cuda) and, in tests, for the CPU
# (tests/cuda_on_cpu).
set(cuda_kernel_sources
    logits_best.cu logits_softcap.cu
    rope.cu
    rows_embed.cu rows_gate.cu rows_norm.cu)
set(cuda_kernel_host_sources handles.cpp)
