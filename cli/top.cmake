# cairn-top. What needs no terminal is a library for the unit tests as well.
add_library(cairn_top_lib STATIC top/feed.cpp top/figures.cpp top/generations.cpp top/page.cpp top/sample.cpp top/width.cpp)
target_link_libraries(cairn_top_lib PUBLIC cairn_common)
cairn_unity(cairn_top_lib)
add_executable(cairn-top top/main.cpp top/screen.cpp)
target_link_libraries(cairn-top PRIVATE cairn_top_lib Boost::program_options)
