# The CUDA backend's sources, listed once (see kernels/cuda/sources.cmake).
set(cuda_backend_sources device_probe.cpp kv_pool.cpp kv_pool_moves.cpp)
