#include "mpi/interposer/early.h"

#include <algorithm>
#include <climits>
#include <cstdlib>

#include "mpi/interposer/bottom.h"
#include "mpi/interposer/contents.h"
#include "mpi/interposer/outcomes.h"

namespace cairn::mpi {
namespace {

#ifdef CAIRN_MPI_MPICH
constexpr bool keeps_one_list = true;
#else
constexpr bool keeps_one_list = false;
#endif

// Longer ones stay with their senders. MPICH has room for 262,144 messages that were matched and not received
// (its requests), so that all short ones are copied.
constexpr std::uint64_t long_message = 64U << 10;
// A look that finds nothing costs as much as a small receive, so it isn't taken at each.
constexpr unsigned between_looks = 16;

struct Key {
    std::uint64_t comm;
    int source, tag;
    bool operator==(const Key&) const = default;
};
struct HashOfKey {
    std::size_t operator()(const Key& key) const {
        return mix(key.comm, static_cast<std::uint64_t>(static_cast<std::uint32_t>(key.source)) << 32 |
                                 static_cast<std::uint32_t>(key.tag));
    }
};
struct Row {
    Early *first = nullptr, *last = nullptr;
};

std::unordered_map<Key, Row, HashOfKey> rows;
std::vector<MPI_Comm> watched;
std::size_t next_watched = 0;
std::unordered_map<std::uint64_t, Early*> given;  // to the program by a matched probe
unsigned until_look = between_looks;

bool in_use() {
    return keeps_one_list && replaying() && !session->alone;
}

bool has_envelope(int source, int tag) {
    return source >= 0 && tag >= 0;
}

// Not one that the MPI would refuse: nothing ever comes for it.
bool can_come(MPI_Comm comm, int source, int tag) {
    if (!in_use() || !has_envelope(source, tag) || comm == MPI_COMM_NULL) return false;
    int inter = 0, size = 0;
    ::PMPI_Comm_test_inter(comm, &inter);
    if (inter != 0)
        ::PMPI_Comm_remote_size(comm, &size);
    else
        ::PMPI_Comm_size(comm, &size);
    return source < size;
}

void status_of(const Early& message, MPI_Status* status) {
    if (status == MPI_STATUS_IGNORE) return;
    status->MPI_SOURCE = message.source;
    status->MPI_TAG = message.tag;
    ::PMPI_Status_set_elements_x(status, MPI_BYTE, static_cast<MPI_Count>(message.bytes));
    ::PMPI_Status_set_cancelled(status, 0);
}

// Takes the oldest message out; false if there is none.
bool take(MPI_Comm comm) {
    int there = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    if (real.Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &there, &message, &status) != MPI_SUCCESS ||
        there == 0)
        return false;
    MPI_Count bytes = 0;
    ::PMPI_Get_elements_x(&status, MPI_BYTE, &bytes);
    auto* taken = new Early{.source = status.MPI_SOURCE,
                            .tag = status.MPI_TAG,
                            .bytes = static_cast<std::uint64_t>(bytes),
                            .message = message};
    if (taken->bytes <= long_message) {
        taken->data = static_cast<char*>(std::malloc(taken->bytes + 1));
        // Whatever it was sent as, MPI_PACKED receives it (MPI 4.0, section 5.2).
        real.Mrecv(taken->data, static_cast<int>(bytes), MPI_PACKED, &taken->message, MPI_STATUS_IGNORE);
    }
    Row& row = rows[{bits(comm), taken->source, taken->tag}];
    (row.first == nullptr ? row.first : row.last->next) = taken;
    row.last = taken;
    return true;
}

// All that is there, of this communicator and of one other in turn: the library's list is one for all. True
// if there was anything.
bool look(MPI_Comm comm) {
    bool found = false;
    while (take(comm)) found = true;
    if (watched.empty()) return found;
    next_watched = (next_watched + 1) % watched.size();
    if (const MPI_Comm other = watched[next_watched]; other != comm)
        while (take(other)) found = true;
    return found;
}

Early* find(MPI_Comm comm, int source, int tag, bool remove) {
    if (rows.empty()) return nullptr;
    const auto row = rows.find({bits(comm), source, tag});
    if (row == rows.end()) return nullptr;
    Early* message = row->second.first;
    if (!remove) return message;
    row->second.first = message->next;
    message->next = nullptr;
    if (row->second.first == nullptr) rows.erase(row);
    return message;
}

void drop_early(Early* message) {
    std::free(message->data);
    delete message;
}

std::uint64_t room_for(int count, MPI_Datatype type) {
    MPI_Count size = 0;
    ::PMPI_Type_size_x(type, &size);
    return static_cast<std::uint64_t>(size) * static_cast<std::uint64_t>(count);
}

// As many elements as came; the last may be there in part.
void unpack(const Early& message, void* buffer, int count, MPI_Datatype type) {
    if (message.bytes == 0) return;
    MPI_Count size = 0;
    ::PMPI_Type_size_x(type, &size);
    const auto each = static_cast<std::uint64_t>(size);
    const auto whole = static_cast<int>(message.bytes / each);
    const Seen seen(buffer, type);
    int at = 0;
    const auto all = static_cast<int>(message.bytes);
    if (whole > 0) ::PMPI_Unpack(message.data, all, &at, seen.at, whole, seen.type, MPI_COMM_SELF);
    const std::uint64_t rest = message.bytes - static_cast<std::uint64_t>(whole) * each;
    if (rest == 0 || whole >= count) return;
    // In part only the MPI's own receive can do it: a message to ourselves.
    MPI_Aint lower = 0, extent = 0;
    ::PMPI_Type_get_extent(seen.type, &lower, &extent);
    auto* behind = reinterpret_cast<void*>(reinterpret_cast<std::intptr_t>(seen.at) + extent * whole);
    MPI_Request sent = MPI_REQUEST_NULL;
    real.Isend(message.data + (message.bytes - rest), static_cast<int>(rest), MPI_PACKED, 0, 2, session->own,
               &sent);
    real.Recv(behind, 1, seen.type, 0, 2, session->own, MPI_STATUS_IGNORE);
    real.Wait(&sent, MPI_STATUS_IGNORE);
}

bool sound(int count, MPI_Datatype type) {
    return count >= 0 && type != MPI_DATATYPE_NULL;
}

}  // namespace

Early* early(MPI_Comm comm, int source, int tag) {
    if (!in_use() || !has_envelope(source, tag) || comm == MPI_COMM_NULL) return nullptr;
    if (--until_look == 0) until_look = look(comm) ? 1 : between_looks;
    return find(comm, source, tag, true);
}

int raise_truncated(MPI_Comm comm) {
    ::PMPI_Comm_call_errhandler(comm, MPI_ERR_TRUNCATE);
    return MPI_ERR_TRUNCATE;
}

int receive_early(Early* message, void* buffer, int count, MPI_Datatype type, MPI_Comm comm,
                  MPI_Status* status) {
    if (message->data == nullptr) {
        // MPI_Mrecv would raise an error at MPI_COMM_WORLD; a request knows its communicator.
        MPI_Request request = MPI_REQUEST_NULL;
        const int posted = real.Imrecv(buffer, count, type, &message->message, &request);
        drop_early(message);
        return posted == MPI_SUCCESS ? real.Wait(&request, status) : posted;
    }
    status_of(*message, status);
    const bool fits = message->bytes <= room_for(count, type);
    if (fits) unpack(*message, buffer, count, type);
    drop_early(message);
    return fits ? MPI_SUCCESS : raise_truncated(comm);
}

int request_early(Early* message, void* buffer, int count, MPI_Datatype type, MPI_Request* request,
                  Posted& posted) {
    posted.truncated = false;
    if (message->data == nullptr) {
        const int result = real.Imrecv(buffer, count, type, &message->message, request);
        drop_early(message);
        return result;
    }
    posted.truncated = message->bytes > room_for(count, type);
    if (!posted.truncated) unpack(*message, buffer, count, type);
    const int result = real.Grequest_start(
        [](void* of, MPI_Status* status) {
            status_of(*static_cast<Early*>(of), status);
            return MPI_SUCCESS;
        },
        [](void* of) {
            drop_early(static_cast<Early*>(of));
            return MPI_SUCCESS;
        },
        [](void*, int) { return MPI_SUCCESS; }, message, request);
    return result == MPI_SUCCESS ? real.Grequest_complete(*request) : result;
}

int receive(void* buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
            MPI_Status* status) {
    if (Early* message = sound(count, type) ? early(comm, source, tag) : nullptr)
        return receive_early(message, buffer, count, type, comm, status);
    return real.Recv(buffer, count, type, source, tag, comm, status);
}

int post(void* buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request* request,
         Posted& posted) {
    if (Early* message = sound(count, type) ? early(comm, source, tag) : nullptr)
        return request_early(message, buffer, count, type, request, posted);
    return real.Irecv(buffer, count, type, source, tag, comm, request);
}

namespace {

// Waits for the message. The library's own probe would look through all that comes in the meantime.
Early* wait_for_early(MPI_Comm comm, int source, int tag, bool remove) {
    for (;;) {
        look(comm);
        if (Early* message = find(comm, source, tag, remove)) return message;
    }
}

}  // namespace

int probe(int source, int tag, MPI_Comm comm, MPI_Status* status) {
    if (!can_come(comm, source, tag)) return real.Probe(source, tag, comm, status);
    status_of(*wait_for_early(comm, source, tag, false), status);
    return MPI_SUCCESS;
}

int matched_probe(int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status) {
    if (!can_come(comm, source, tag)) return real.Mprobe(source, tag, comm, message, status);
    Early* found = wait_for_early(comm, source, tag, true);
    status_of(*found, status);
    *message = placeholder_message();
    given[bits(*message)] = found;
    return MPI_SUCCESS;
}

Early* early_of(MPI_Message* message) {
    if (given.empty()) return nullptr;
    const auto found = given.find(bits(*message));
    if (found == given.end()) return nullptr;
    Early* taken = found->second;
    given.erase(found);
    real.Mrecv(nullptr, 0, MPI_BYTE, message, MPI_STATUS_IGNORE);
    return taken;
}

void watch_early(MPI_Comm comm) {
    // A job that is left would look for them in the library.
    if (session->debugged) return;
    if (keeps_one_list && comm != MPI_COMM_NULL) watched.push_back(comm);
}

void forget_early(MPI_Comm comm) {
    std::erase(watched, comm);
    // Nobody can receive them any more; another communicator may have this handle next.
    std::erase_if(rows, [&](const auto& each) { return each.first.comm == bits(comm); });
}

}  // namespace cairn::mpi
