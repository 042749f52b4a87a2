# The CUDA sources, listed once: compiled by nvcc (kernels/cuda) and, in tests, for the CPU
# (tests/cuda_on_cpu).
set(cuda_kernel_sources)
set(cuda_kernel_host_sources handles.cpp)
