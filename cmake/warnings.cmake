# One interface target that every target of ours links: warnings are errors, and the
# sanitizers of the asan preset where a target can run under them.
# Errors with the compiler that CI has. Each later one warns of something more, and who only builds cairn with the compiler of his
# distribution can do nothing about it.
set(cairn_warnings_are_errors OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION MATCHES "^12\\.")
  set(cairn_warnings_are_errors ON)
endif()
option(CAIRN_WERROR "Warnings are errors" ${cairn_warnings_are_errors})
add_library(cairn_warnings INTERFACE)
target_compile_options(cairn_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor
  -Wold-style-cast -Wimplicit-fallthrough $<$<BOOL:${CAIRN_WERROR}>:-Werror>)

add_library(cairn_tool INTERFACE)
target_link_libraries(cairn_tool INTERFACE cairn_warnings Threads::Threads)
if(CAIRN_STATIC)
  target_link_options(cairn_tool INTERFACE -static)
endif()
if(CAIRN_ASAN)
  # Without what is looked at before each access to an object: it is a third of the compiler's time, of which CI has no more. A null
  # pointer is met by AddressSanitizer as well; what is read from files and sockets is copied out, and may lie anywhere.
  target_compile_options(cairn_tool INTERFACE -fsanitize=address,undefined -fno-sanitize=null,vptr,alignment -fno-sanitize-recover=undefined
                         -fno-omit-frame-pointer)
  target_link_options(cairn_tool INTERFACE -fsanitize=address,undefined)
endif()
