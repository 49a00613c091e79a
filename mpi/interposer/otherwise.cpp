#include "mpi/interposer/otherwise.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "mpi/interposer/bottom.h"

namespace cairn::mpi {

bool feeding_otherwise = false;

namespace {

// As the record has it (store_received).
struct HeardMessage {
    int kind = MPI_SUCCESS;
    std::int64_t source = 0, tag = 0;
    std::uint64_t bytes = 0;  // and whether it was cancelled
    std::vector<std::pair<std::uint64_t, std::vector<char>>> parts;
    MPI_Comm comm = MPI_COMM_NULL;
};

bool keeping = false;
std::optional<HeardMessage> last_heard;

struct AnotherOrder {
    HeardMessage other;
    std::uint64_t at = 0, later = 0;
    bool begun = false;
    std::vector<HeardMessage> waiting;  // that have come by now and nobody has received
};
std::optional<AnotherOrder> another_order;
std::optional<MPI_Status> recorded_instead;

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

// The receive may count it in other elements than the one that got it.
int give(const HeardMessage& heard, MPI_Comm comm, MPI_Status& status, const Buffer& into) {
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

bool fits(const HeardMessage& heard, MPI_Comm comm, const WantedMessage& asked) {
    return heard.comm == comm && (asked.source == MPI_ANY_SOURCE || asked.source == heard.source) &&
           (asked.tag == MPI_ANY_TAG || asked.tag == heard.tag);
}

// Of those that have come, the first that it takes.
HeardMessage next_for(AnotherOrder& order, MPI_Comm comm, const WantedMessage& asked) {
    const auto found = std::find_if(order.waiting.begin(), order.waiting.end(),
                                    [&](const HeardMessage& each) { return fits(each, comm, asked); });
    if (found == order.waiting.end())
        depart("a message that this receive takes",
               fmt::format("a receive from {}, tag {}, for which the record has none by now",
                           asked.source == MPI_ANY_SOURCE ? "any" : std::to_string(asked.source),
                           asked.tag == MPI_ANY_TAG ? "any" : std::to_string(asked.tag)));
    HeardMessage taken = std::move(*found);
    order.waiting.erase(found);
    return taken;
}

void put(std::vector<char>& into, const void* data, std::size_t bytes) {
    const auto* from = static_cast<const char*>(data);
    into.insert(into.end(), from, from + bytes);
}

template <class T>
bool take(int file, T& value) {
    return ::read(file, &value, sizeof value) == static_cast<ssize_t>(sizeof value);
}

}  // namespace

void keep_heard() {
    keeping = feeding_otherwise = true;
}

int heard_in_file() {
    if (!last_heard) return -1;
    std::vector<char> text;
    put(text, &last_heard->kind, sizeof last_heard->kind);
    put(text, &last_heard->source, sizeof last_heard->source);
    put(text, &last_heard->tag, sizeof last_heard->tag);
    put(text, &last_heard->bytes, sizeof last_heard->bytes);
    for (const auto& [count, packed] : last_heard->parts) {
        const std::uint64_t bytes = packed.size();
        put(text, &count, sizeof count);
        put(text, &bytes, sizeof bytes);
        put(text, packed.data(), packed.size());
    }
    const int file = ::memfd_create("cairn-mpi-message", MFD_CLOEXEC);
    std::size_t written = 0;
    while (file >= 0 && written < text.size()) {
        const ssize_t size = ::write(file, text.data() + written, text.size() - written);
        if (size <= 0) {
            ::close(file);
            return -1;
        }
        written += static_cast<std::size_t>(size);
    }
    ::lseek(file, 0, SEEK_SET);
    return file;
}

void deliver_otherwise(int file, std::uint64_t at, std::uint64_t later) {
    AnotherOrder order;
    order.at = at;
    order.later = later;
    HeardMessage& other = order.other;
    if (!take(file, other.kind) || !take(file, other.source) || !take(file, other.tag) ||
        !take(file, other.bytes))
        return;
    std::uint64_t count = 0, bytes = 0;
    while (take(file, count) && take(file, bytes)) {
        auto& packed = other.parts.emplace_back(count, std::vector<char>(bytes)).second;
        for (std::size_t done = 0; done < bytes;) {
            const ssize_t size = ::read(file, packed.data() + done, bytes - done);
            if (size <= 0) return;
            done += static_cast<std::size_t>(size);
        }
    }
    another_order = std::move(order);
    feeding_otherwise = true;
}

int fed_otherwise(MPI_Comm comm, MPI_Status& status, const Buffer& into, const WantedMessage& asked) {
    HeardMessage mine = read_heard(comm);
    recorded_instead.reset();
    const std::uint64_t event = session->tracer->events();
    if (keeping) last_heard = mine;
    AnotherOrder* order = another_order ? &*another_order : nullptr;
    const bool is_message = mine.kind == MPI_SUCCESS && (mine.bytes & 1) == 0;
    if (order == nullptr || event < order->at || !is_message) return give(mine, comm, status, into);
    if (asked.by_itself)
        depart("messages in this order",
               "one that was found by a probe, or looked at, before it is received");
    recorded_instead.emplace();
    tell_status(mine, *recorded_instead);
    if (!order->begun) {
        order->begun = true;
        order->other.comm = comm;
        order->waiting.push_back(std::move(mine));
        return give(order->other, comm, status, into);
    }
    // It came here in the record, and has been received by now.
    if (event != order->later) order->waiting.push_back(std::move(mine));
    const HeardMessage taken = next_for(*order, comm, asked);
    if (event >= order->later && order->waiting.empty()) {
        another_order.reset();
        feeding_otherwise = keeping;
    }
    return give(taken, comm, status, into);
}

MPI_Status as_recorded(const MPI_Status& own) {
    const MPI_Status status = recorded_instead.value_or(own);
    recorded_instead.reset();
    return status;
}

}  // namespace cairn::mpi
