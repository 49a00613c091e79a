# cairn-inspect, and its parts as a library for the unit tests.
# Names of system calls come from the kernel's header on the machine that builds.
find_file(cairn_unistd asm/unistd_64.h PATHS /usr/include/x86_64-linux-gnu /usr/include REQUIRED)
file(STRINGS ${cairn_unistd} cairn_calls REGEX "^#define __NR_[a-z0-9_]+ [0-9]+$")
list(LENGTH cairn_calls cairn_call_count)
set(cairn_call_lines "${cairn_call_count}> call_names{{\n")
foreach(line ${cairn_calls})
  string(REGEX REPLACE "^#define __NR_([a-z0-9_]+) ([0-9]+)$" "{\\2, \"\\1\"},\n" line "${line}")
  string(APPEND cairn_call_lines "${line}")
endforeach()
string(APPEND cairn_call_lines "}};\n")
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/inspect/inspect_calls.inc CONTENT "${cairn_call_lines}" @ONLY)

file(GLOB cairn_inspect_sources CONFIGURE_DEPENDS inspect_*.cpp)
add_library(cairn_inspect_lib STATIC ${cairn_inspect_sources})
target_include_directories(cairn_inspect_lib PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/inspect)
target_link_libraries(cairn_inspect_lib PUBLIC cairn_common)
add_executable(cairn-inspect inspect.cpp)
target_link_libraries(cairn-inspect PRIVATE cairn_inspect_lib Boost::program_options)
