# One interface target that every target of ours links: warnings are errors, and the
# sanitizers of the asan preset where a target can run under them.
add_library(cairn_warnings INTERFACE)
target_compile_options(cairn_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor
  -Wold-style-cast -Wimplicit-fallthrough -Werror)

add_library(cairn_tool INTERFACE)
target_link_libraries(cairn_tool INTERFACE cairn_warnings Threads::Threads)
if(CAIRN_STATIC)
  target_link_options(cairn_tool INTERFACE -static)
endif()
if(CAIRN_ASAN)
  target_compile_options(cairn_tool INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(cairn_tool INTERFACE -fsanitize=address,undefined)
endif()
