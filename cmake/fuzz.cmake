# Fuzzing is a matter of the asan preset: what is fuzzed is compiled there once, with coverage, for the unit tests and the
# harnesses of test/fuzz alike. libFuzzer is clang's; the code is compiled by the project's own compiler (see
# test/fuzz/gcc_coverage.c).
if(CAIRN_ASAN)
  file(GLOB cairn_clang_runtimes /usr/lib/llvm-*/lib/clang/*/lib/linux)
  find_library(CAIRN_LIBFUZZER libclang_rt.fuzzer-x86_64.a PATHS ${cairn_clang_runtimes} NO_DEFAULT_PATH)
  if(NOT CAIRN_LIBFUZZER OR NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    message(STATUS "no libFuzzer (package libclang-rt-14-dev), or another compiler than g++: no fuzz tests")
  endif()
else()
  unset(CAIRN_LIBFUZZER CACHE)  # a build folder from before this was asan's matter remembers one
endif()

# cairn_fuzzed(library): its code tells libFuzzer where it has been. Programs without libFuzzer have somebody who doesn't
# listen.
function(cairn_fuzzed library)
  if(NOT CAIRN_ASAN OR NOT CAIRN_LIBFUZZER) # a build folder of before may remember the library
    return()
  endif()
  if(NOT TARGET cairn_no_coverage)
    # An archive: harnesses take of it what they have not, the comparisons.
    add_library(cairn_no_coverage STATIC ${CMAKE_SOURCE_DIR}/test/fuzz/no_coverage.c
                ${CMAKE_SOURCE_DIR}/test/fuzz/float_comparisons.c)
  endif()
  target_compile_options(${library} PRIVATE -fsanitize-coverage=trace-pc,trace-cmp)
  target_link_libraries(${library} PUBLIC cairn_no_coverage)
endfunction()
