# The CUDA backend, on the CPU (tests/cuda_on_cpu).

# The promises of every backend, for this one: the same source, linked with the CUDA backend.
function(vitrine_cuda_twin name source)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE vitrine_options Qt6::Test vitrine_test_models
                        vitrine_cuda_on_cpu)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS engine
                       ENVIRONMENT QT_QPA_PLATFORM=offscreen)
  add_dependencies(tests_engine ${name})
endfunction()
vitrine_cuda_twin(tst_cuda_promises tst_backend.cpp)
vitrine_cuda_twin(tst_cuda_extreme_models tst_int8_models.cpp)

foreach(name tst_cuda_models tst_cuda_modes tst_cuda_backend tst_cuda_failures)
  vitrine_test(${name} LABELS engine SOURCES cuda_fixture.cpp
               LIBRARIES vitrine_test_models vitrine_cuda_on_cpu)
endforeach()
vitrine_test(tst_cuda_real LABELS real SOURCES cuda_fixture.cpp
             LIBRARIES vitrine_test_models vitrine_cuda_on_cpu)

# Threads, blocks and streams in random order, and copies as late as they may be.
add_test(NAME tst_cuda_promises_shuffled COMMAND tst_cuda_promises)
set_tests_properties(tst_cuda_promises_shuffled PROPERTIES LABELS engine ENVIRONMENT
                     "QT_QPA_PLATFORM=offscreen;CUDA_ON_CPU_SEED=5;CUDA_ON_CPU_LAZY=1")
add_test(NAME tst_cuda_modes_shuffled
         COMMAND tst_cuda_modes staticScalesCountWhatTheyMeet observerSeesEachRowOnce)
set_tests_properties(tst_cuda_modes_shuffled PROPERTIES LABELS engine ENVIRONMENT
                     "QT_QPA_PLATFORM=offscreen;CUDA_ON_CPU_SEED=7;CUDA_ON_CPU_LAZY=1")
