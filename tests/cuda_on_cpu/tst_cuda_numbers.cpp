#include <cublas_v2.h>
#include <cuda_fp16.h>

#include <QtTest>
#include <cmath>
#include <cstring>

#include "cuda_on_cpu/harness_fixture.h"
#include "kernels/api/half.h"

using namespace cuda_on_cpu;

// FP16, intrinsics and cuBLAS give the device's numbers.

class TestCudaNumbers : public QObject {
  Q_OBJECT

 private slots:
  void init() { begin(); }
  void cleanupTestCase() { reset(); }

  void everyHalfSurvivesAFloat() {
    for (unsigned bits = 0; bits < 65536; ++bits) {
      const __half value = __ushort_as_half(static_cast<unsigned short>(bits));
      if (__hisnan(value)) {
        QVERIFY(std::isnan(__half2float(value)));
        continue;
      }
      QCOMPARE(__half_as_ushort(__float2half(__half2float(value))), bits);
      QCOMPARE(__half2float(value),
               vitrine::kernels::halfToFloat(static_cast<std::uint16_t>(bits)));
    }
  }
  void arithmeticIsRoundedOnce() {
    // 1 + 2^-11 lies half way between two halves; the sticky 2^-24 decides.
    const __half one(1.0F), small(0.00048828125F), tiny(5.9604645e-8F);
    QCOMPARE(float(__hadd(one, small)), 1.0F);
    QCOMPARE(float(__hfma(one, one, small)), 1.0F);
    QCOMPARE(float(__half(1.0 + 0.00048828125 + 1e-12)), 1.0009765625F);
    QCOMPARE(float(__half(1.0 + 0.00048828125 - 1e-12)), 1.0F);
    QCOMPARE(float(__hadd(tiny, tiny)), 1.1920929e-7F);
    QCOMPARE(float(__hmul(__half(300.0F), __half(300.0F))), INFINITY);
  }
  void integersAsTheDeviceHasThem() {
    QCOMPARE(__dp4a(int(0x7f80ff01), int(0x01020304), 10), 127 - 256 - 3 + 4 + 10);
    QCOMPARE(__dp4a(0x01020304U, 0xff000001U, 1U), 255U + 4U + 1U);
    QCOMPARE(__byte_perm(0x33221100, 0x77665544, 0x7531), 0x77553311U);
    QCOMPARE(__byte_perm(0x80, 0, 0x8888), 0xFFFFFFFFU);
    QCOMPARE(__vsub4(0x00010203U, 0x01010101U), 0xFF000102U);
    QCOMPARE(__float2int_rn(2.5F), 2);
    QCOMPARE(__float2int_rn(3.5F), 4);
    QCOMPARE(__float2int_rn(NAN), 0);
    QCOMPARE(__float2int_rn(1e20F), 2147483647);
    QCOMPARE(__float2int_rn(-1e20F), int(-2147483647 - 1));
    QCOMPARE(__float2uint_rn(-1.0F), 0U);
    QCOMPARE(__brev(1U), 0x80000000U);
    QCOMPARE(__clz(0), 32);
    QCOMPARE(__ffs(8), 4);
    QCOMPARE(__funnelshift_l(0x80000000U, 1U, 1), 3U);
  }
  void sineOfTurnsIsExactAtQuarters() {
    for (const double turns : {0.0, 0.5, 1.0, 1.5, 2.0, -0.5, 1e15, 1e15 + 0.5}) {
      double s = 9, c = 9;
      sincospi(turns, &s, &c);
      QVERIFY(s == 0.0 || s == 1.0 || s == -1.0);
      QVERIFY(c == 0.0 || c == 1.0 || c == -1.0);
      QCOMPARE(s * s + c * c, 1.0);
    }
    double s = 0, c = 0;
    sincospi(2e9 + 1.0 / 3, &s, &c);
    QVERIFY(std::abs(s - std::sqrt(0.75)) < 1e-6 && std::abs(c - 0.5) < 1e-6);
  }

  void products_data() {
    QTest::addColumn<int>("type");
    QTest::addColumn<int>("m");
    QTest::addColumn<int>("n");
    QTest::addColumn<int>("k");
    QTest::addColumn<bool>("transposes");
    for (const int type : {CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF, CUDA_R_8I}) {
      for (const bool transposes : {true, false}) {
        if (type == CUDA_R_8I && !transposes) continue;
        for (const int size : {4, 68, 132}) {
          QTest::addRow("type %d, size %d%s", type, size, transposes ? ", transposed" : "")
              << type << size << (size == 4 ? 1 : size / 3 + 1) << (size == 4 ? 4 : size + 20)
              << transposes;
        }
      }
    }
  }
  void products() {
    QFETCH(int, type);
    QFETCH(int, m);
    QFETCH(int, n);
    QFETCH(int, k);
    QFETCH(bool, transposes);
    const int lda = (transposes ? k : m) + 4, ldb = k + 8, ldc = m + 3;
    const int columnsA = transposes ? m : k;
    std::vector<float> a(static_cast<std::size_t>(lda) * columnsA),
        b(static_cast<std::size_t>(ldb) * n), c(static_cast<std::size_t>(ldc) * n, 2.0F);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(int(i * 37 % 15) - 7);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(int(i * 53 % 17) - 8);
    const bool isInt8 = type == CUDA_R_8I;
    const auto packed = [&](const std::vector<float>& values) {
      std::vector<unsigned char> bytes;
      for (const float value : values) {
        unsigned char raw[4];
        std::size_t size = 4;
        std::memcpy(raw, &value, 4);
        if (type == CUDA_R_16F) {
          const unsigned short rounded = __half_as_ushort(__float2half(value));
          std::memcpy(raw, &rounded, size = 2);
        } else if (type == CUDA_R_16BF) {
          std::memcpy(raw, reinterpret_cast<const char*>(&value) + 2, size = 2);
        } else if (isInt8) {
          raw[0] = static_cast<unsigned char>(static_cast<signed char>(value));
          size = 1;
        }
        bytes.insert(bytes.end(), raw, raw + size);
      }
      return onDevice(bytes);
    };
    const std::vector<int> intC(c.size(), 2);
    void* deviceA = packed(a);
    void* deviceB = packed(b);
    void* deviceC = isInt8 ? static_cast<void*>(onDevice(intC)) : onDevice(c);
    cublasHandle_t handle = nullptr;
    QCOMPARE(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
    const float alpha = 2.0F, beta = 3.0F;
    const int intAlpha = 2, intBeta = 3;
    const void* scaleA = isInt8 ? static_cast<const void*>(&intAlpha) : &alpha;
    const void* scaleB = isInt8 ? static_cast<const void*>(&intBeta) : &beta;
    QCOMPARE(cublasGemmEx(handle, transposes ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N, m, n, k,
                          scaleA, deviceA, cudaDataType(type), lda, deviceB, cudaDataType(type),
                          ldb, scaleB, deviceC, isInt8 ? CUDA_R_32I : CUDA_R_32F, ldc,
                          isInt8 ? CUBLAS_COMPUTE_32I : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
             CUBLAS_STATUS_SUCCESS);
    CUDA_OK(cudaDeviceSynchronize());
    const std::vector<int> gotInt =
        isInt8 ? fromDevice(static_cast<int*>(deviceC), c.size()) : std::vector<int>();
    const std::vector<float> got =
        isInt8 ? std::vector<float>() : fromDevice(static_cast<float*>(deviceC), c.size());
    for (int column = 0; column < n; ++column) {
      for (int row = 0; row < ldc; ++row) {
        const auto at = static_cast<std::size_t>(column) * ldc + row;
        double wanted = 2.0;
        if (row < m) {
          double sum = 0;
          for (int p = 0; p < k; ++p) {
            sum += double(a[transposes ? std::size_t(row) * lda + p : std::size_t(p) * lda + row]) *
                   b[std::size_t(column) * ldb + p];
          }
          wanted = 2.0 * sum + 3.0 * 2.0;
        }
        QCOMPARE(isInt8 ? gotInt[at] : double(got[at]), wanted);  // small integers: exact
      }
    }
    QCOMPARE(cublasDestroy(handle), CUBLAS_STATUS_SUCCESS);
  }

  void whatCublasRefuses() {
    char* memory = onDevice(std::vector<char>(4096));
    cublasHandle_t handle = nullptr;
    QCOMPARE(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
    const float one = 1.0F, zero = 0.0F;
    const int intOne = 1, intZero = 0;
    const auto fp16 = [&](int m, int lda, int ldc, void* c) {
      return cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, m, 2, 8, &one, memory, CUDA_R_16F, lda,
                          memory, CUDA_R_16F, 8, &zero, c, CUDA_R_32F, ldc, CUBLAS_COMPUTE_32F,
                          CUBLAS_GEMM_DEFAULT);
    };
    const auto int8 = [&](int m, int k, const char* a) {
      return cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, m, 2, k, &intOne, a, CUDA_R_8I, k,
                          memory, CUDA_R_8I, k, &intZero, memory + 2048, CUDA_R_32I, m,
                          CUBLAS_COMPUTE_32I, CUBLAS_GEMM_DEFAULT);
    };
    QCOMPARE(fp16(4, 8, 4, memory + 1024), CUBLAS_STATUS_SUCCESS);
    QCOMPARE(fp16(4, 7, 4, memory + 1024), CUBLAS_STATUS_INVALID_VALUE);
    QCOMPARE(fp16(4, 8, 3, memory + 1024), CUBLAS_STATUS_INVALID_VALUE);
    QCOMPARE(int8(4, 8, memory), CUBLAS_STATUS_SUCCESS);
    QCOMPARE(int8(5, 8, memory), CUBLAS_STATUS_NOT_SUPPORTED);
    QCOMPARE(int8(4, 6, memory), CUBLAS_STATUS_NOT_SUPPORTED);
    QCOMPARE(int8(4, 8, memory + 1), CUBLAS_STATUS_NOT_SUPPORTED);
    failCall(1, cudaErrorMemoryAllocation, "cublasGemmEx");
    QCOMPARE(int8(4, 8, memory), CUBLAS_STATUS_ALLOC_FAILED);
    QCOMPARE(cublasSetWorkspace(handle, memory + 16, 64), CUBLAS_STATUS_INVALID_VALUE);
    QCOMPARE(cublasSetWorkspace(handle, memory, 4097), CUBLAS_STATUS_INVALID_VALUE);
    QCOMPARE(cublasSetWorkspace(handle, memory, 4096), CUBLAS_STATUS_SUCCESS);
    QCOMPARE(counts().cublasHandles, 1);
    QVERIFY(cudaDeviceSynchronize() == cudaSuccess);
    QCOMPARE(fp16(4, 8, 4, memory + 4092), CUBLAS_STATUS_EXECUTION_FAILED);  // behind the end
    QCOMPARE(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    QVERIFY(report().find("cublasGemmEx 4 x 2 x 8") != std::string::npos);
  }
};

QTEST_GUILESS_MAIN(TestCudaNumbers)
#include "tst_cuda_numbers.moc"
