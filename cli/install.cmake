# PREFIX/bin/cairn, PREFIX/libexec/cairn/cairn-VERB, PREFIX/lib/cairn/libcairn.so; the programs find each other
# by their own folder (common/layout.h). What wants more of the machine is a component of its own, `mpi` and `slurm`; all else is in the
# package `cairn` (packaging/debian).
install(TARGETS cairn RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS cairn-control cairn-inspect cairn-stacks cairn-top cairn-generations cairn-doctor cairn-slurm cairn-service RUNTIME DESTINATION ${CAIRN_LIBEXECDIR})
install(FILES ${CMAKE_SOURCE_DIR}/docs/cairn.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES completions/cairn.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME cairn)
install(FILES completions/_cairn DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
# Units for systemd, which wants to know where cairn is: that is decided when it is installed. systemd looks for units in
# lib/systemd below /usr and /usr/local.
install(CODE "
  set(cairn \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/cairn\")
  foreach(manager system user)
    configure_file(${CMAKE_CURRENT_SOURCE_DIR}/service/\${manager}.service.in ${CMAKE_CURRENT_BINARY_DIR}/\${manager}/cairn@.service @ONLY)
    file(INSTALL ${CMAKE_CURRENT_BINARY_DIR}/\${manager}/cairn@.service DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib/systemd/\${manager}\")
  endforeach()
")
