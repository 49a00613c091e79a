#include "mpi/interposer/contents.h"

#include <algorithm>
#include <cstring>

#include "mpi/interposer/bottom.h"
#include "mpi/interposer/otherwise.h"
#include "mpi/interposer/outcomes.h"

namespace cairn::mpi {
namespace {

constexpr std::uint64_t most_at_once = 1U << 30;  // MPI_Pack counts bytes in an int

std::uint64_t size_of(MPI_Datatype type) {
    MPI_Count size = 0;
    ::PMPI_Type_size_x(type, &size);
    return size > 0 ? static_cast<std::uint64_t>(size) : 0;
}

MPI_Aint extent_of(MPI_Datatype type) {
    MPI_Aint lower = 0, extent = 0;
    ::PMPI_Type_get_extent(type, &lower, &extent);
    return extent;
}

char* element(void* buffer, std::uint64_t number, MPI_Aint extent) {
    // MPI_BOTTOM is no object: addresses are added as numbers.
    return reinterpret_cast<char*>(reinterpret_cast<std::intptr_t>(buffer) +
                                   static_cast<std::intptr_t>(number) * extent);
}

// In parts, each as its number of elements and its bytes; the last part has no elements.
void store_elements(void* buffer, std::uint64_t count, MPI_Datatype type) {
    const Seen seen(count > 0 ? buffer : &count, type);
    static std::vector<char> packed;
    const std::uint64_t size = count > 0 ? size_of(type) : 0;
    if (size == 0) count = 0;
    const MPI_Aint extent = count > 0 ? extent_of(type) : 0;
    for (std::uint64_t done = 0; done < count;) {
        const auto part =
            static_cast<int>(std::min(count - done, std::max<std::uint64_t>(most_at_once / size, 1)));
        int room = 0, used = 0;
        ::PMPI_Pack_size(part, seen.type, MPI_COMM_SELF, &room);
        packed.resize(static_cast<std::size_t>(room));
        ::PMPI_Pack(element(seen.at, done, extent), part, seen.type, packed.data(), room, &used,
                    MPI_COMM_SELF);
        store_number(static_cast<std::uint64_t>(part));
        session->writer->put_bytes(Column::content, packed.data(), static_cast<std::size_t>(used));
        done += static_cast<std::uint64_t>(part);
    }
    store_number(0);
}

// What the calls of a rank that runs alone have brought it, for whoever looks at it: of the last such call,
// and no more of it than is good to read. Without allocation: the program's heap is to be what it was.
struct Brought {
    char type[MPI_MAX_OBJECT_NAME];
    std::uint64_t elements, bytes;
    std::uint8_t head[64];
};
constexpr std::size_t most_brought = 16;
Brought brought[most_brought];
std::size_t brought_parts = 0;
std::uint64_t brought_in = 0;  // the call

void note_brought(MPI_Datatype type, std::uint64_t elements, const std::string& packed, bool first) {
    if (brought_in != session->events) brought_parts = 0;
    brought_in = session->events;
    if (first) {
        if (++brought_parts > most_brought) return;
        Brought& now = brought[brought_parts - 1] = {};
        int length = 0;
        ::PMPI_Type_get_name(type, now.type, &length);
        std::memcpy(now.head, packed.data(), std::min(packed.size(), sizeof now.head));
    }
    if (brought_parts == 0 || brought_parts > most_brought) return;
    brought[brought_parts - 1].elements += elements;
    brought[brought_parts - 1].bytes += packed.size();
}

// At most `most` elements: more than the program has room for are a departure.
void fed_elements(void* buffer, std::uint64_t most, MPI_Datatype type) {
    const Seen seen(buffer, type);
    std::uint64_t done = 0;
    for (std::uint64_t part = fed_number(); part != 0; part = fed_number()) {
        const auto packed = session->reader->next_bytes(Column::content);
        if (!packed) record_ends();
        if (part > most - done)
            depart(fmt::format("{} elements received", done + part), fmt::format("room for {}", most));
        note_brought(type, part, *packed, done == 0);
        int at = 0;
        ::PMPI_Unpack(packed->data(), static_cast<int>(packed->size()), &at,
                      element(seen.at, done, extent_of(type)), static_cast<int>(part), seen.type,
                      MPI_COMM_SELF);
        done += part;
    }
}

std::uint64_t bytes_of(const MPI_Status& status) {
    MPI_Count bytes = 0;
    ::PMPI_Get_elements_x(&status, MPI_BYTE, &bytes);
    return bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

int class_of(int result) {
    int kind = MPI_SUCCESS;
    if (result != MPI_SUCCESS) ::PMPI_Error_class(result, &kind);
    return kind;
}

bool is_cancelled(const MPI_Status& status) {
    int flag = 0;
    ::PMPI_Test_cancelled(&status, &flag);
    return flag != 0;
}

// How many buffers of a collective this process gets something in.
int parts(const Output& output, causality::Shape shape, MPI_Comm comm, int root) {
    if (output.type == MPI_DATATYPE_NULL && output.types == nullptr) return 0;  // Barrier
    if (output.out == MPI_IN_PLACE) return 0;                                   // a Scatter's root
    int inter = 0, rank = 0, size = 0;
    ::PMPI_Comm_test_inter(comm, &inter);
    ::PMPI_Comm_rank(comm, &rank);
    if (inter != 0)
        ::PMPI_Comm_remote_size(comm, &size);
    else
        ::PMPI_Comm_size(comm, &size);
    if (shape == causality::Shape::to_root && (inter != 0 ? root != MPI_ROOT : root != rank)) return 0;
    if (shape == causality::Shape::from_root && inter != 0 && root < 0) return 0;
    if (!output.each) return 1;
    if (!output.neighbours) return size;
    int kind = MPI_UNDEFINED, in = 0, out = 0, weighted = 0;
    ::PMPI_Topo_test(comm, &kind);
    if (kind == MPI_CART) {
        ::PMPI_Cartdim_get(comm, &in);
        return 2 * in;
    }
    if (kind == MPI_GRAPH) {
        ::PMPI_Graph_neighbors_count(comm, rank, &in);
        return in;
    }
    ::PMPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
    return in;
}

// The i-th of these buffers.
Buffer part(const Output& output, int i) {
    Buffer buffer{output.out, output.counts != nullptr ? output.counts[i] : output.count,
                  output.types != nullptr ? output.types[i] : output.type};
    if (!output.each) return buffer;
    std::intptr_t offset = 0;
    if (output.far != nullptr)
        offset = output.far[i];
    else if (output.types != nullptr)
        offset = output.displs[i];
    else
        offset = extent_of(output.type) * (output.displs != nullptr ? std::intptr_t{output.displs[i]}
                                                                    : std::intptr_t{i} * output.count);
    buffer.at = reinterpret_cast<void*>(reinterpret_cast<std::intptr_t>(output.out) + offset);
    return buffer;
}

struct Started {
    Output output;
    int parts = 0, rank = 0;
    std::vector<MPI_Datatype> kept;  // what output.types points to
};
std::unordered_map<std::uint64_t, Started> started_collectives;

void store_parts(const Output& output, int count, int rank) {
    store_number(static_cast<std::uint64_t>(count));
    for (int i = 0; i < count; ++i) {
        // Of a Reduce_scatter's counts the one of this process.
        const Buffer buffer = part(output, output.each || output.counts == nullptr ? i : rank);
        store_elements(buffer.at, static_cast<std::uint64_t>(std::max(buffer.count, 0)), buffer.type);
    }
}

int rank_in(MPI_Comm comm) {
    int rank = 0;
    ::PMPI_Comm_rank(comm, &rank);
    return rank;
}

}  // namespace

std::string brought_lines() {
    std::string text;
    if (brought_in != session->events) return text;
    for (std::size_t i = 0; i < std::min(brought_parts, most_brought); ++i) {
        const Brought& each = brought[i];
        const auto shown = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(each.bytes, sizeof each.head));
        text += fmt::format("brought {} {} {:02x} {}\n", each.elements, each.bytes,
                            fmt::join(each.head, each.head + shown, ""), each.type);
    }
    return text;
}

void store_number(std::uint64_t value) {
    session->writer->put(Column::content, value);
}

std::uint64_t fed_number() {
    const auto value = session->reader->next(Column::content);
    if (!value) record_ends();
    return *value;
}

void store_result(int result) {
    store_number(static_cast<std::uint64_t>(class_of(result)));
}

int fed_result(MPI_Comm comm) {
    const auto result = static_cast<int>(fed_number());
    if (result != MPI_SUCCESS && comm != MPI_COMM_NULL) ::PMPI_Comm_call_errhandler(comm, result);
    return result;
}

void store_status(const MPI_Status& status) {
    store_number(zigzag(status.MPI_SOURCE));
    store_number(zigzag(status.MPI_TAG));
    store_number(bytes_of(status) << 1 | (is_cancelled(status) ? 1U : 0U));
}

void fed_status(MPI_Status& status) {
    status.MPI_SOURCE = static_cast<int>(unzigzag(fed_number()));
    status.MPI_TAG = static_cast<int>(unzigzag(fed_number()));
    const std::uint64_t bytes = fed_number();
    ::PMPI_Status_set_elements_x(&status, MPI_BYTE, static_cast<MPI_Count>(bytes >> 1));
    ::PMPI_Status_set_cancelled(&status, (bytes & 1) != 0 ? 1 : 0);
}

void clear_status(MPI_Status& status) {
    status.MPI_SOURCE = MPI_ANY_SOURCE;
    status.MPI_TAG = MPI_ANY_TAG;
    ::PMPI_Status_set_elements_x(&status, MPI_BYTE, 0);
    ::PMPI_Status_set_cancelled(&status, 0);
}

void store_received(int error, const MPI_Status& status, const Buffer& into) {
    store_result(error);
    const int kind = class_of(error);
    if (kind != MPI_SUCCESS && kind != MPI_ERR_TRUNCATE) return;
    store_status(status);
    if (kind != MPI_SUCCESS) return;
    const std::uint64_t size = into.type != MPI_DATATYPE_NULL && into.count > 0 ? size_of(into.type) : 0;
    // The last element may have been filled in part: what is left of it is the program's own.
    const std::uint64_t elements =
        size == 0 || is_cancelled(status)
            ? 0
            : std::min((bytes_of(status) + size - 1) / size, static_cast<std::uint64_t>(into.count));
    store_elements(into.at, elements, into.type);
}

int fed_received(MPI_Comm comm, MPI_Status& status, const Buffer& into, const WantedMessage& asked) {
    if (feeding_otherwise) [[unlikely]]
        return fed_otherwise(comm, status, into, asked);
    const auto kind = static_cast<int>(fed_number());
    if (kind == MPI_SUCCESS || kind == MPI_ERR_TRUNCATE) fed_status(status);
    if (kind == MPI_SUCCESS)
        fed_elements(into.at, static_cast<std::uint64_t>(std::max(into.count, 0)), into.type);
    if (kind != MPI_SUCCESS && kind != MPI_ERR_PENDING && comm != MPI_COMM_NULL)
        ::PMPI_Comm_call_errhandler(comm, kind);
    return kind;
}

void store_probe(int result, const MPI_Status& status) {
    store_result(result);
    if (result == MPI_SUCCESS) store_status(status);
}

int fed_probe(MPI_Comm comm, MPI_Status* status) {
    const int result = fed_result(comm);
    MPI_Status own;
    if (result == MPI_SUCCESS) fed_status(status == MPI_STATUS_IGNORE ? own : *status);
    return result;
}

void store_collective(const Output& output, causality::Shape shape, MPI_Comm comm, int root) {
    store_parts(output, parts(output, shape, comm, root), rank_in(comm));
}

void fed_collective(const Output& output) {
    const std::uint64_t count = fed_number();
    for (std::uint64_t i = 0; i < count; ++i) {
        const Buffer buffer = part(output, output.each ? static_cast<int>(i) : 0);
        // The counts were the program's, and are again: nothing to hold them against, alone.
        fed_elements(buffer.at, ~std::uint64_t{0}, buffer.type);
    }
}

void store_started(const Output& output, causality::Shape shape, MPI_Comm comm, int root,
                   MPI_Request request) {
    const int count = parts(output, shape, comm, root), rank = rank_in(comm);
    // Requests that are complete may share a handle, so they are not looked for by it.
    int done = 0;
    if (count > 0) ::PMPI_Request_get_status(request, &done, MPI_STATUS_IGNORE);
    store_number(count == 0 || done != 0 ? 1 : 0);
    if (count == 0 || done != 0) return store_parts(output, count, rank);
    Started& kept = started_collectives[bits(request)] = {output, count, rank, {}};
    kept.output.type = keep(output.type);
    if (output.types != nullptr) {
        for (int i = 0; i < count; ++i) kept.kept.push_back(keep(output.types[i]));
        kept.output.types = kept.kept.data();
    }
    Posted& posted = session->requests.add(bits(request));
    posted.collective = true;
}

void fed_started(const Output& output, MPI_Request request) {
    Posted& posted = session->requests.add(bits(request));
    posted.send = true;  // nothing comes with its completion
    if (fed_number() == 1) return fed_collective(output);
    posted.send = false;
    posted.collective = true;
    Started& kept = started_collectives[bits(request)] = {output, 0, 0, {}};
    kept.output.type = keep(output.type);
}

void store_finished(std::uint64_t key) {
    const auto found = started_collectives.find(key);
    if (found == started_collectives.end()) return;
    Started& kept = found->second;
    store_parts(kept.output, kept.parts, kept.rank);
    drop(kept.output.type);
    for (MPI_Datatype& type : kept.kept) drop(type);
    started_collectives.erase(found);
}

void fed_finished(std::uint64_t key) {
    const auto found = started_collectives.find(key);
    if (found == started_collectives.end()) return;
    fed_collective(found->second.output);
    drop(found->second.output.type);
    started_collectives.erase(found);
}

void store_shadows() {
    Session& s = *session;
    std::vector<std::size_t> done;
    std::vector<MPI_Status> statuses;
    for (std::size_t i = 0; i < s.shadows.size(); ++i) {
        MPI_Request handle = s.shadows[i];
        int flag = 0;
        MPI_Status status;
        if (::PMPI_Request_get_status(handle, &flag, &status) != MPI_SUCCESS || flag == 0) continue;
        done.push_back(i);
        statuses.push_back(status);
    }
    store_number(done.size());
    for (std::size_t k = 0; k < done.size(); ++k) {
        const MPI_Request handle = s.shadows[done[k]];
        store_number(done[k]);
        const Posted posted = *s.requests.find(handle);
        store_received(MPI_SUCCESS, statuses[k], {posted.buffer, posted.count, posted.type});
        complete_receive(posted, statuses[k], false);
        if (s.tracer) s.tracer->closed(posted.key, statuses[k]);
        s.requests.erase(posted.key);
        MPI_Request freed = handle;
        real.Wait(&freed, MPI_STATUS_IGNORE);
        if (freed != MPI_REQUEST_NULL) real.Request_free(&freed);
    }
    while (!done.empty()) {
        s.shadows.erase(s.shadows.begin() + static_cast<std::ptrdiff_t>(done.back()));
        done.pop_back();
    }
}

void fed_shadows() {
    Session& s = *session;
    std::vector<std::uint64_t> done(fed_number());
    for (std::uint64_t& i : done) {
        i = fed_number();
        if (i >= s.shadows.size()) record_ends();
        const Posted posted = *s.requests.find(s.shadows[i]);
        MPI_Status status;
        static_cast<void>(fed_received(MPI_COMM_NULL, status, {posted.buffer, posted.count, posted.type},
                                       {.by_itself = true}));
        if (s.tracer) s.tracer->closed(posted.key, status);
        s.requests.erase(posted.key);
        real.Request_free(&s.shadows[i]);
    }
    for (; !done.empty(); done.pop_back())
        s.shadows.erase(s.shadows.begin() + static_cast<std::ptrdiff_t>(done.back()));
}

MPI_Request placeholder() {
    MPI_Request request = MPI_REQUEST_NULL;
    real.Recv_init(nullptr, 0, MPI_BYTE, 0, 0, session->own, &request);
    return request;
}

MPI_Message placeholder_message() {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Message message = MPI_MESSAGE_NULL;
    real.Isend(nullptr, 0, MPI_BYTE, 0, 1, session->own, &request);
    real.Mprobe(0, 1, session->own, &message, MPI_STATUS_IGNORE);
    real.Request_free(&request);
    return message;
}

namespace {

// 1 for all of the world in its order, else one more than their number, and each.
void store_members(const std::vector<causality::Process>& members) {
    bool world = members.size() == static_cast<std::size_t>(session->size) && members.size() > 1;
    for (std::size_t i = 0; i < members.size(); ++i) world = world && members[i] == i;
    store_number(world ? 0 : members.size() + 1);
    for (std::size_t i = 0; i < members.size() && !world; ++i)
        store_number(static_cast<std::uint32_t>(members[i] + 1));
}

std::vector<causality::Process> fed_list() {
    const std::uint64_t count = fed_number();
    std::vector<causality::Process> members;
    if (count == 0)
        for (int i = 0; i < session->size; ++i) members.push_back(static_cast<causality::Process>(i));
    for (std::uint64_t i = 1; i < count; ++i)
        members.push_back(static_cast<causality::Process>(fed_number() - 1));
    return members;
}

Members fed_last;

}  // namespace

void store_made(MPI_Comm made) {
    if (made == MPI_COMM_NULL) return store_number(0);
    const Members members = members_of(made);
    store_number(members.inter ? 2 : 1);
    store_members(members.own);
    if (members.inter) store_members(members.remote);
}

const Members& fed_members() {
    return fed_last;
}

MPI_Comm fed_made(MPI_Comm parent) {
    MPI_Comm made = MPI_COMM_NULL;
    const std::uint64_t kind = fed_number();
    if (kind == 0) return made;
    fed_last = {.own = fed_list(), .remote = {}, .inter = kind == 2};
    if (fed_last.inter) fed_last.remote = fed_list();
    real.Comm_dup(session->own, &made);
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    if (::PMPI_Comm_get_errhandler(parent, &handler) == MPI_SUCCESS) {
        ::PMPI_Comm_set_errhandler(made, handler);
        ::PMPI_Errhandler_free(&handler);
    }
    return made;
}

MPI_Datatype keep(MPI_Datatype type) {
    if (type == MPI_DATATYPE_NULL) return type;
    int integers = 0, addresses = 0, types = 0, combiner = MPI_COMBINER_NAMED;
    ::PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    MPI_Datatype copy = type;
    if (combiner != MPI_COMBINER_NAMED) ::PMPI_Type_dup(type, &copy);
    return copy;
}

void drop(MPI_Datatype& type) {
    if (type == MPI_DATATYPE_NULL) return;
    int integers = 0, addresses = 0, types = 0, combiner = MPI_COMBINER_NAMED;
    ::PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    if (combiner != MPI_COMBINER_NAMED) ::PMPI_Type_free(&type);
}

}  // namespace cairn::mpi
