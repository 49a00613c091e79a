# Several sources in one compilation where most of the time goes into the headers that they share: a build from nothing
# takes half as long. After a change it takes longer, so it is for who builds once (scripts/build, if the folder is new).
option(CAIRN_UNITY "Compile the sources of a library several at a time" OFF)

# cairn_unity(TARGET [SOURCE...]): except for these sources, which can't stand in one file with their neighbours.
function(cairn_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${CAIRN_UNITY} UNITY_BUILD_BATCH_SIZE 24)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
