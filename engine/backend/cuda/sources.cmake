# The CUDA backend's sources, listed once (see kernels/cuda/sources.cmake).
set(cuda_backend_sources
  device_probe.cpp
  device_memory.cpp
  nvml.cpp
  kv_pool.cpp
  kv_pool_moves.cpp
  kv_layout.cpp
  weight_staging.cpp
  weight_rows.cpp
  weight_plan.cpp
  cuda_weights.cpp
  step_plan.cpp
  step_inputs.cpp
  cuda_graphs.cpp)
