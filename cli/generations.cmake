# cairn verify, prune, export, import: generations of checkpoints as a whole.
find_library(CAIRN_ARCHIVE archive REQUIRED)
add_library(cairn_generations_lib STATIC generations/archive.cpp generations/find.cpp generations/prune.cpp generations/verify.cpp)
target_link_libraries(cairn_generations_lib PUBLIC cairn_inspect_lib ${CAIRN_ARCHIVE})
cairn_unity(cairn_generations_lib)
add_executable(cairn-generations generations/main.cpp)
target_link_libraries(cairn-generations PRIVATE cairn_generations_lib Boost::program_options)
