// The MPI that this interposer is compiled for, and the way to its own functions. Everything in interposer/
// is compiled once for each MPI.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wpedantic"
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#pragma GCC diagnostic pop
// Open MPI's constants are casts in C's manner, in macros.
#pragma GCC diagnostic ignored "-Wold-style-cast"

#include <cstdint>
#include <type_traits>

namespace cairn::mpi {

enum class Fn : std::uint16_t {
#define FUNCTION(name) name,
#include "functions.inc"
#undef FUNCTION
    count_
};
[[nodiscard]] const char* name(Fn fn);  // with MPI_

// The MPI's own functions, taken from its library by name. The wrappers are there under both names, MPI_X and
// PMPI_X: the Fortran libraries of both MPIs call one or the other, so every language arrives there.
struct Real {
#define REAL(name) decltype(&::MPI_##name) name;  // NOLINT(bugprone-macro-parentheses): a name
#include "real.inc"
#undef REAL
};
extern Real real;
extern double (*real_wtime)();

// An MPI call on its way through a wrapper.
struct Call {
    Fn fn;
    void* at;     // where it returns to
    void* frame;  // of the wrapper
};

#ifdef OPEN_MPI
inline constexpr const char* flavour = "openmpi";
inline constexpr const char* library_name = "libmpi.so.40";
#else
inline constexpr const char* flavour = "mpich";
inline constexpr const char* library_name = "libmpich.so.12";
#endif

// A handle's bits. Not an identity: finished sends share one.
template <class Handle>
std::uint64_t bits(Handle handle) {
    if constexpr (std::is_pointer_v<Handle>)
        return reinterpret_cast<std::uintptr_t>(handle);
    else
        return static_cast<std::uint32_t>(handle);
}

}  // namespace cairn::mpi
