# Tools that need nothing of the machine they run on but its kernel: scripts/bundle builds them so, for machines of other distributions.
option(CAIRN_STATIC "Link the tools statically" OFF)
if(CAIRN_STATIC)
  set(Boost_USE_STATIC_LIBS ON)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  add_compile_definitions(CAIRN_STATIC)
endif()
