# The operations of the CUDA kernels as rows of the table, on top of the CUDA API alone.
set(cuda_ops_sources
    cuda_attention_ops.cpp cuda_linear_ops.cpp cuda_ops.cpp cuda_row_ops.cpp)
