// A buffer for MPI_Pack and MPI_Unpack, whatever its address.
#pragma once

#include "mpi/interposer/mpi_library.h"

namespace cairn::mpi {

// MPICH's MPI_Pack and MPI_Unpack refuse MPI_BOTTOM: the same elements, seen from an address that is one.
class Seen {
  public:
    Seen(void* buffer, MPI_Datatype its_type) : at(buffer), type(its_type) {
        if (buffer != nullptr || its_type == MPI_DATATYPE_NULL) return;
        static char here;
        const int one = 1;
        MPI_Aint lower = 0, extent = 0;
        ::PMPI_Type_get_extent(its_type, &lower, &extent);
        const MPI_Aint back = -reinterpret_cast<MPI_Aint>(&here);
        MPI_Datatype moved = MPI_DATATYPE_NULL;
        ::PMPI_Type_create_hindexed(1, &one, &back, its_type, &moved);
        ::PMPI_Type_create_resized(moved, lower + back, extent, &made_);
        ::PMPI_Type_commit(&made_);
        ::PMPI_Type_free(&moved);
        at = &here;
        type = made_;
    }
    ~Seen() {
        if (made_ != MPI_DATATYPE_NULL) ::PMPI_Type_free(&made_);
    }
    Seen(const Seen&) = delete;
    Seen& operator=(const Seen&) = delete;

    void* at;
    MPI_Datatype type;

  private:
    MPI_Datatype made_ = MPI_DATATYPE_NULL;
};

}  // namespace cairn::mpi
