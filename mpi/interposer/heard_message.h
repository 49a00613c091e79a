// A message as the record has it, apart from the receive that it is for: for the debugger's what-if, which
// gives a rank that runs alone its messages in another order (otherwise.h, another_first.h).
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "mpi/interposer/contents.h"

namespace cairn::mpi {

// As store_received() writes it.
struct HeardMessage {
    int kind = MPI_SUCCESS;
    std::int64_t source = 0, tag = 0;
    std::uint64_t bytes = 0;  // and whether it was cancelled
    std::vector<std::pair<std::uint64_t, std::vector<char>>> parts;
    MPI_Comm comm = MPI_COMM_NULL;  // not in a parcel
};

// The next of the record.
[[nodiscard]] HeardMessage read_heard(MPI_Comm comm);
void tell_status(const HeardMessage& heard, MPI_Status& status);
// The receive may count it in other elements than the one that got it.
[[nodiscard]] int give_heard(const HeardMessage& heard, MPI_Comm comm, MPI_Status& status,
                             const Buffer& into);

// What goes from one copy of a rank to another, as a file in memory.
class Parcel {
  public:
    Parcel() = default;
    // All that is in this file. A parcel that says less than is taken from it gives zeroes.
    explicit Parcel(int file);
    template <class T>
    void put(const T& value) {
        static_assert(std::is_trivially_copyable_v<T>);
        put(&value, sizeof value);
    }
    void put(const HeardMessage& heard);
    template <class T>
    [[nodiscard]] T take() {
        static_assert(std::is_trivially_copyable_v<T>);
        T value{};
        if (bytes_.size() - at_ < sizeof value) {
            at_ = bytes_.size();
            return value;
        }
        std::memcpy(&value, bytes_.data() + at_, sizeof value);
        at_ += sizeof value;
        return value;
    }
    [[nodiscard]] HeardMessage take_heard();
    // To be closed by who asks; -1: there is no memory for it.
    [[nodiscard]] int file() const;

  private:
    void put(const void* data, std::size_t bytes);
    std::vector<char> bytes_;
    std::size_t at_ = 0;
};

}  // namespace cairn::mpi
