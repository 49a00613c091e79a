# PREFIX/bin/cairn, PREFIX/libexec/cairn/cairn-VERB, PREFIX/lib/cairn/libcairn.so; the programs find each other
# by their own folder (common/layout.h).
install(TARGETS cairn RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(program cairn-coordinator cairn-capture cairn-restart cairn-inspect cairn-control)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CAIRN_LIBEXECDIR})
  endif()
endforeach()
if(TARGET cairn_hijack)
  install(TARGETS cairn_hijack LIBRARY DESTINATION ${CAIRN_LIBDIR})
endif()
install(FILES ${CMAKE_SOURCE_DIR}/docs/cairn.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES completions/cairn.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME cairn)
install(FILES completions/_cairn DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
