# cairn verify, prune, export, import: generations of checkpoints as a whole.
add_library(cairn_generations_lib STATIC generations/find.cpp generations/prune.cpp generations/verify.cpp)
target_link_libraries(cairn_generations_lib PUBLIC cairn_inspect_lib)
# Linked statically libarchive wants ten other libraries.
if(CAIRN_STATIC)
  target_sources(cairn_generations_lib PRIVATE generations/no_archive.cpp)
else()
  find_library(CAIRN_ARCHIVE archive REQUIRED)
  target_sources(cairn_generations_lib PRIVATE generations/archive.cpp)
  target_link_libraries(cairn_generations_lib PUBLIC ${CAIRN_ARCHIVE})
endif()
cairn_unity(cairn_generations_lib)
add_executable(cairn-generations generations/main.cpp)
target_link_libraries(cairn-generations PRIVATE cairn_generations_lib Boost::program_options)
