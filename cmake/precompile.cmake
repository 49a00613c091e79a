# Half of the time of a build from nothing is the parsing of the same few headers of others. Ours are never precompiled:
# each file still says which of ours it uses.
#   cairn_precompile(TARGET HEADER...): `<name>` of headers of the system and of libraries
option(CAIRN_PRECOMPILE "Precompile the headers of libraries" ON)
function(cairn_precompile target)
  if(CAIRN_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE
      <algorithm> <chrono> <cstdint> <cstring> <expected> <filesystem> <functional> <map> <memory> <optional> <string>
      <string_view> <vector> <fmt/format.h> ${ARGN})
    # g++ 12 sees out-of-bounds copies in std::string's operator+ where there are none (GCC bugs 105329, 105651), and
    # no longer knows that it is a system header's line once that is precompiled.
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-restrict)
  endif()
endfunction()
