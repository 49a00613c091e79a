// Where a name leads to in the libraries behind this one, as dlsym(RTLD_NEXT) finds it.
//
// dlsym itself would tie the library to one libc: it is GLIBC_2.34 in libc.so.6 since then and GLIBC_2.2.5 in
// libdl.so.2 before, and what a program loads with a build of the one doesn't begin with the other. It also
// allocates when it finds nothing.
#pragma once

namespace cairn::hijack {

// The default version of that name in the first library that defines it, of those that the dynamic linker's
// list has behind ours (link_map, <link.h>); null if none does. An IFUNC is resolved. It allocates nothing
// and takes no lock: what a wrapper stands in front of is in a library that was loaded with the program, or
// in one that its caller needs, and neither goes.
void* find_behind_us(const char* name);

}  // namespace cairn::hijack
