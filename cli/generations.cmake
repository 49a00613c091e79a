# cairn verify, cairn prune: generations of checkpoints as a whole.
add_library(cairn_generations_lib STATIC generations/find.cpp generations/prune.cpp generations/verify.cpp)
target_link_libraries(cairn_generations_lib PUBLIC cairn_inspect_lib)
cairn_unity(cairn_generations_lib)
add_executable(cairn-generations generations/main.cpp)
target_link_libraries(cairn-generations PRIVATE cairn_generations_lib Boost::program_options)
