# The CUDA sources, listed once: compiled by nvcc (kernels/cuda) and, in tests, for the CPU
# (tests/cuda_on_cpu).
set(cuda_kernel_sources
    attention.cu attention_decode_fp16.cu attention_decode_int8.cu attention_prefill.cu
    copy_block.cu
    gemm_int8.cu
    gemv_float.cu gemv_w8a16.cu gemv_w8a8.cu
    logits_best.cu logits_softcap.cu
    rope.cu
    rows_embed.cu rows_gate.cu rows_norm.cu)
set(cuda_kernel_host_sources
    blas.cpp
    handles.cpp
    linear.cpp)
# Not for the CPU: tests bring their own cuBLAS.
set(cuda_kernel_real_sources
    cublas_loader.cpp)
# What the kernels need of nvcc: wide loads are reinterpret_casts, and shapes compute their sizes.
set(cuda_nvcc_options -Xcompiler=-fno-strict-aliasing --expt-relaxed-constexpr)
