#include "mpi/interposer/heard_message.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "mpi/interposer/bottom.h"

namespace cairn::mpi {

HeardMessage read_heard(MPI_Comm comm) {
    HeardMessage heard;
    heard.comm = comm;
    heard.kind = static_cast<int>(fed_number());
    if (heard.kind != MPI_SUCCESS && heard.kind != MPI_ERR_TRUNCATE) return heard;
    heard.source = unzigzag(fed_number());
    heard.tag = unzigzag(fed_number());
    heard.bytes = fed_number();
    if (heard.kind != MPI_SUCCESS) return heard;
    for (std::uint64_t count = fed_number(); count != 0; count = fed_number()) {
        const auto packed = session->reader->next_bytes(Column::content);
        if (!packed) record_ends();
        heard.parts.emplace_back(count, std::vector<char>(packed->data(), packed->data() + packed->size()));
    }
    return heard;
}

void tell_status(const HeardMessage& heard, MPI_Status& status) {
    status.MPI_SOURCE = static_cast<int>(heard.source);
    status.MPI_TAG = static_cast<int>(heard.tag);
    ::PMPI_Status_set_elements_x(&status, MPI_BYTE, static_cast<MPI_Count>(heard.bytes >> 1));
    ::PMPI_Status_set_cancelled(&status, (heard.bytes & 1) != 0 ? 1 : 0);
}

int give_heard(const HeardMessage& heard, MPI_Comm comm, MPI_Status& status, const Buffer& into) {
    if (heard.kind == MPI_SUCCESS || heard.kind == MPI_ERR_TRUNCATE) tell_status(heard, status);
    if (heard.kind != MPI_SUCCESS && heard.kind != MPI_ERR_PENDING && comm != MPI_COMM_NULL)
        ::PMPI_Comm_call_errhandler(comm, heard.kind);
    const Seen seen(into.at, into.type);
    MPI_Count size = 0;
    MPI_Aint lower = 0, extent = 0;
    if (!heard.parts.empty()) {
        ::PMPI_Type_size_x(into.type, &size);
        ::PMPI_Type_get_extent(into.type, &lower, &extent);
    }
    std::uint64_t done = 0;
    for (const auto& [count, packed] : heard.parts) {
        const std::uint64_t elements = size > 0 ? packed.size() / static_cast<std::uint64_t>(size) : 0;
        if (elements > static_cast<std::uint64_t>(std::max(into.count, 0)) - done)
            depart("a message that the receive has room for",
                   fmt::format("one of {} bytes, and room for {} elements", heard.bytes >> 1, into.count));
        int at = 0;
        auto* to = reinterpret_cast<void*>(reinterpret_cast<std::intptr_t>(seen.at) +
                                           static_cast<std::intptr_t>(done) * extent);
        ::PMPI_Unpack(packed.data(), static_cast<int>(packed.size()), &at, to, static_cast<int>(elements),
                      seen.type, MPI_COMM_SELF);
        done += elements;
    }
    return heard.kind;
}

Parcel::Parcel(int file) {
    const off_t size = ::lseek(file, 0, SEEK_END);
    ::lseek(file, 0, SEEK_SET);
    bytes_.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    std::size_t done = 0;
    while (done < bytes_.size()) {
        const ssize_t got = ::read(file, bytes_.data() + done, bytes_.size() - done);
        if (got <= 0) break;
        done += static_cast<std::size_t>(got);
    }
    bytes_.resize(done);
}

void Parcel::put(const void* data, std::size_t bytes) {
    const auto* from = static_cast<const char*>(data);
    bytes_.insert(bytes_.end(), from, from + bytes);
}

void Parcel::put(const HeardMessage& heard) {
    put(heard.kind);
    put(heard.source);
    put(heard.tag);
    put(heard.bytes);
    put(std::uint64_t{heard.parts.size()});
    for (const auto& [count, packed] : heard.parts) {
        put(count);
        put(std::uint64_t{packed.size()});
        put(packed.data(), packed.size());
    }
}

HeardMessage Parcel::take_heard() {
    HeardMessage heard;
    heard.kind = take<int>();
    heard.source = take<std::int64_t>();
    heard.tag = take<std::int64_t>();
    heard.bytes = take<std::uint64_t>();
    for (auto parts = take<std::uint64_t>(); parts > 0; --parts) {
        const auto count = take<std::uint64_t>();
        const auto bytes = std::min(take<std::uint64_t>(), std::uint64_t{bytes_.size() - at_});
        const auto* begin = bytes_.data() + at_;
        heard.parts.emplace_back(count, std::vector<char>(begin, begin + bytes));
        at_ += bytes;
        if (at_ == bytes_.size()) break;
    }
    return heard;
}

int Parcel::file() const {
    const int file = ::memfd_create("cairn-mpi-message", MFD_CLOEXEC);
    std::size_t written = 0;
    while (file >= 0 && written < bytes_.size()) {
        const ssize_t size = ::write(file, bytes_.data() + written, bytes_.size() - written);
        if (size <= 0) {
            ::close(file);
            return -1;
        }
        written += static_cast<std::size_t>(size);
    }
    if (file >= 0) ::lseek(file, 0, SEEK_SET);
    return file;
}

}  // namespace cairn::mpi
