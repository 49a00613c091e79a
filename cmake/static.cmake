# Tools that need nothing of the machine they run on but its kernel: scripts/bundle builds them so, for machines of other distributions.
option(CAIRN_STATIC "Link the tools statically" OFF)
if(CAIRN_STATIC)
  set(Boost_USE_STATIC_LIBS ON)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
endif()

# cairn-restart and cairn-capture are linked statically wherever all archives are there: each process that comes back begins as a
# copy of the one, of whose 81 mappings the libraries' are three quarters, and each checkpoint begins with the other
# (docs/decisions/0003-libraries.md).
option(CAIRN_LEAN_RESTART "Link cairn-restart and cairn-capture statically if all archives that they need are there" ON)
set(CAIRN_LEAN OFF)
if(CAIRN_LEAN_RESTART AND NOT CAIRN_STATIC AND NOT CAIRN_ASAN)
  include(CheckCXXSourceCompiles)
  include(CheckLinkerFlag)
  set(CMAKE_REQUIRED_LINK_OPTIONS -static-pie)
  check_cxx_source_compiles("#include <string>
#ifndef __PIE__
#error the compiler makes no position-independent code unless told to
#endif
int main() { return std::string().empty() ? 0 : 1; }" CAIRN_HAS_STATIC_LIBC)
  unset(CMAKE_REQUIRED_LINK_OPTIONS)
  set(CAIRN_LEAN ${CAIRN_HAS_STATIC_LIBC})
  foreach(name boost_program_options zstd lz4 sodium)
    find_library(CAIRN_ARCHIVE_${name} lib${name}.a)
    if(NOT CAIRN_ARCHIVE_${name})
      set(CAIRN_LEAN OFF)
    endif()
  endforeach()
endif()

if(CAIRN_LEAN)
  # That getpwuid(3) needs plugins of the same libc: common/name_lookup.cpp asks none.
  check_linker_flag(CXX -Wl,--no-warnings CAIRN_LINKER_CAN_BE_QUIET)
endif()

# A library for whoever links what is linked with it: the shared one, or its archive for targets with the property CAIRN_LEAN.
function(cairn_shared_or_archive variable shared archive)
  if(CAIRN_LEAN)
    set(${variable} "$<IF:$<BOOL:$<TARGET_PROPERTY:CAIRN_LEAN>>,${archive},${shared}>" PARENT_SCOPE)
  else()
    set(${variable} ${shared} PARENT_SCOPE)
  endif()
endfunction()

# Links a program statically and position-independently, where that can be.
function(cairn_link_lean target)
  if(CAIRN_LEAN)
    set_target_properties(${target} PROPERTIES CAIRN_LEAN ON)
    target_link_options(${target} PRIVATE -static-pie $<$<BOOL:${CAIRN_LINKER_CAN_BE_QUIET}>:-Wl,--no-warnings>)
  endif()
endfunction()
