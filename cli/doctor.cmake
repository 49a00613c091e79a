# cairn-doctor, and its parts as a library for the unit tests.
file(GLOB cairn_doctor_sources CONFIGURE_DEPENDS doctor/*.cpp)
list(FILTER cairn_doctor_sources EXCLUDE REGEX "/main\\.cpp$")
add_library(cairn_doctor_lib STATIC ${cairn_doctor_sources})
target_link_libraries(cairn_doctor_lib PUBLIC cairn_common)
cairn_unity(cairn_doctor_lib)
add_executable(cairn-doctor doctor/main.cpp)
target_link_libraries(cairn-doctor PRIVATE cairn_doctor_lib Boost::program_options)
