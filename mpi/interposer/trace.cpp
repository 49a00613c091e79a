#include "mpi/interposer/trace.h"

#include <algorithm>
#include <ctime>

#include "mpi/interposer/contents.h"
#include "mpi/interposer/session.h"

namespace cairn::mpi {

using causality::Event;
using causality::Flag;
using causality::Kind;
using causality::Process;
using causality::Shape;

namespace {

std::int64_t now() {
    timespec time{};
    ::clock_gettime(CLOCK_REALTIME, &time);
    return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

std::vector<Process> world_ranks(MPI_Group group) {
    MPI_Group world = MPI_GROUP_NULL;
    ::PMPI_Comm_group(MPI_COMM_WORLD, &world);
    int size = 0;
    ::PMPI_Group_size(group, &size);
    std::vector<int> here(static_cast<std::size_t>(size)), there(here.size());
    for (int i = 0; i < size; ++i) here[static_cast<std::size_t>(i)] = i;
    ::PMPI_Group_translate_ranks(group, size, here.data(), world, there.data());
    ::PMPI_Group_free(&world);
    std::vector<Process> ranks;
    for (const int rank : there) ranks.push_back(rank >= 0 ? static_cast<Process>(rank) : causality::none);
    return ranks;
}

// Messages and requests are different kinds of handles.
constexpr std::uint64_t of_message = std::uint64_t{1} << 63;

}  // namespace

Members members_of(MPI_Comm comm) {
    Members members;
    MPI_Group group = MPI_GROUP_NULL;
    ::PMPI_Comm_group(comm, &group);
    members.own = world_ranks(group);
    ::PMPI_Group_free(&group);
    int inter = 0;
    ::PMPI_Comm_test_inter(comm, &inter);
    if (inter == 0) return members;
    members.inter = true;
    ::PMPI_Comm_remote_group(comm, &group);
    members.remote = world_ranks(group);
    ::PMPI_Group_free(&group);
    return members;
}

Result<std::unique_ptr<Tracer>> Tracer::create(const std::string& path) {
    std::optional<causality::TraceWriter> writer;
    if (!path.empty())
        writer = TRY(causality::TraceWriter::create(path, static_cast<Process>(session->size)));
    std::unique_ptr<Tracer> tracer(new Tracer(std::move(writer)));
    tracer->rank_ = static_cast<std::uint32_t>(session->rank);
    Known world;
    for (int i = 0; i < session->size; ++i) world.members.push_back(static_cast<Process>(i));
    world.peers = std::make_shared<const std::vector<Process>>(world.members);
    tracer->communicators_.emplace(bits(MPI_COMM_WORLD), world);
    tracer->sent_.resize(static_cast<std::size_t>(session->size));
    tracer->received_.resize(static_cast<std::size_t>(session->size));
    tracer->add(0, MPI_COMM_SELF);
    return tracer;
}

void Tracer::failed(const Error& error) {
    if (!stopped_) say("the trace ends here: " + error.what);
    stopped_ = true;
}

std::uint32_t Tracer::place(const Call& call, void* at) {
    const auto [found, is_new] = places_.try_emplace(
        mix(reinterpret_cast<std::uintptr_t>(at), static_cast<std::uint64_t>(call.fn)), 0);
    if (!is_new) return found->second;
    if (!writer_) return 0;
    causality::Place where = locate(at);
    where.call = name(call.fn);
    if (const auto number = writer_->place(where))
        found->second = *number;
    else
        failed(number.error());
    return found->second;
}

void Tracer::begin(const Call& call, void* at) {
    call_.place = place(call, at);
    if (writer_) call_.time = now();
    call_.first = true;
    call_.chance = false;
    call_.alone = {};
}

void Tracer::emit(Event event) {
    if (event.kind == Kind::send) ++sent_[event.peer];
    if (event.kind == Kind::receive) ++received_[event.peer];
    if (stopped_) return;
    stand_within();
    if (event.kind == Kind::collective) stop_inside_if_due();
    event.place = call_.place;
    if (writer_) event.time = event.kind == Kind::send || event.kind == Kind::post ? call_.time : now();
    if (!call_.first) event.flags |= Flag::joined;
    if (call_.chance) event.flags |= Flag::nondeterministic;
    call_.first = false;
    ++events_;
    if (!writer_) return;
    if (const auto done = writer_->append(rank_, event); !done) failed(done.error());
}

void Tracer::end() {
    if (call_.first) emit(call_.alone);
}

void Tracer::found(MPI_Comm comm, int source, int tag) {
    const Known& where = known(comm);
    if (const Process from = peer(where, source); from != causality::none)
        call_.alone = {.peer = from, .communicator = where.id, .tag = tag};
}

std::uint32_t Tracer::new_id(std::uint64_t key) {
    const std::uint64_t id = mix(key, ++times_[key]);
    const auto folded = static_cast<std::uint32_t>(id ^ id >> 32);
    return folded != 0 ? folded : 1;
}

// The same number in all members: what it was made from, who is in it, and how often the like was made, which
// all of them count alike.
const Tracer::Known& Tracer::add(std::uint32_t parent, MPI_Comm comm, bool fed) {
    Known known;
    // Alone the communicator is a copy of MPI_COMM_SELF.
    Members members = !session->alone ? members_of(comm)
                      : fed           ? fed_members()
                                      : Members{.own = {rank_}, .remote = {}, .inter = false};
    std::vector<Process> peers = known.members = members.own;
    if (members.inter) {
        peers = std::move(members.remote);
        known.members.insert(known.members.end(), peers.begin(), peers.end());
        known.inter = true;
        parent = 0;  // each side has its own
    }
    known.peers = std::make_shared<const std::vector<Process>>(std::move(peers));
    std::sort(known.members.begin(), known.members.end());
    known.members.erase(std::unique(known.members.begin(), known.members.end()), known.members.end());
    std::uint64_t key = mix(parent, known.inter ? 2 : 1);
    for (const Process member : known.members) key = mix(key, member + std::uint64_t{1});
    known.id = new_id(key);
    define(known);
    return communicators_.insert_or_assign(bits(comm), std::move(known)).first->second;
}

void Tracer::define(const Known& known) {
    std::vector<Process> members = known.members;
    std::erase(members, causality::none);
    if (!writer_) return;
    if (const auto done = writer_->communicator({known.id, members}); !done) failed(done.error());
}

const Tracer::Known& Tracer::known(MPI_Comm comm) {
    const auto found = communicators_.find(bits(comm));
    return found != communicators_.end() ? found->second : add(0, comm);
}

void Tracer::made(MPI_Comm parent, MPI_Comm comm) {
    add(known(parent).id, comm, true);
}

void Tracer::duplicated(MPI_Comm parent, MPI_Comm comm) {
    Known copy = known(parent);
    copy.id = new_id(mix(copy.id, 3));
    define(copy);
    communicators_.insert_or_assign(bits(comm), std::move(copy));
}

Process Tracer::peer(const std::vector<Process>& peers, int rank) {
    if (rank < 0 || static_cast<std::size_t>(rank) >= peers.size()) return causality::none;
    return peers[static_cast<std::size_t>(rank)];
}

std::uint32_t Tracer::open(std::uint64_t key, Open what) {
    what.request = ++next_request_;
    open_.emplace(key, what);
    return what.request;
}

void Tracer::sends(MPI_Comm comm, int dest, int tag) {
    const Known& where = known(comm);
    const Process to = peer(where, dest);
    if (to == causality::none) return;
    emit({.kind = Kind::send, .peer = to, .communicator = where.id, .tag = tag});
}

void Tracer::sends(MPI_Comm comm, int dest, int tag, MPI_Request request) {
    const Known& where = known(comm);
    const Process to = peer(where, dest);
    if (to == causality::none) return;
    const std::uint32_t number = open(bits(request), {});
    emit({.kind = Kind::send, .peer = to, .communicator = where.id, .tag = tag, .request = number});
}

void Tracer::received(MPI_Comm comm, int source, int tag, bool wild) {
    const Known& where = known(comm);
    const Process from = peer(where, source);
    if (from == causality::none) return;
    if (wild) call_.chance = true;
    emit({.kind = Kind::receive, .peer = from, .communicator = where.id, .tag = tag});
}

void Tracer::posts_receive(MPI_Comm comm, MPI_Request request, bool wild) {
    Open what;
    what.closes = Kind::receive;
    what.peers = known(comm).peers;
    if (wild) what.event.flags = Flag::nondeterministic;
    what.event.communicator = known(comm).id;
    const std::uint32_t number = open(bits(request), what);
    emit({.kind = Kind::post, .communicator = what.event.communicator, .request = number});
}

void Tracer::matched(MPI_Comm comm, MPI_Message message, int source, int tag) {
    const Known& where = known(comm);
    const Process from = peer(where, source);
    if (from == causality::none) return;
    Open what;
    what.closes = Kind::receive;
    what.event.peer = from;
    what.event.tag = tag;
    what.event.communicator = where.id;
    const std::uint32_t number = open(bits(message) | of_message, what);
    emit({.kind = Kind::post, .peer = from, .communicator = where.id, .tag = tag, .request = number});
}

void Tracer::receives_matched(MPI_Message message) {
    closed(bits(message) | of_message, MPI_Status());
}

void Tracer::receives_matched(MPI_Message message, MPI_Request request) {
    auto node = open_.extract(bits(message) | of_message);
    if (node.empty()) return;
    node.key() = bits(request);
    open_.insert(std::move(node));
}

void Tracer::collective(MPI_Comm comm, Shape shape, int root) {
    const Known& where = known(comm);
    // Between two groups data goes both ways, or from a root in one of them: all wait for all.
    const Process from = where.inter ? causality::none : peer(where, root);
    emit({.kind = Kind::collective,
          .shape = from == causality::none ? Shape::all : shape,
          .peer = shape == Shape::all ? causality::none : from,
          .communicator = where.id});
}

void Tracer::collective(MPI_Comm comm, Shape shape, int root, MPI_Request request) {
    opens_collective(comm, shape, root, bits(request));
}

void Tracer::enters(MPI_Comm comm, Shape shape, int root, const void* key) {
    opens_collective(comm, shape, root, reinterpret_cast<std::uintptr_t>(key) | of_message);
}

void Tracer::returns(const void* key) {
    closed(reinterpret_cast<std::uintptr_t>(key) | of_message, MPI_Status());
}

void Tracer::opens_collective(MPI_Comm comm, Shape shape, int root, std::uint64_t key) {
    const Known& where = known(comm);
    const Process from = where.inter ? causality::none : peer(where, root);
    Open what;
    what.closes = Kind::collective;
    what.event.shape = from == causality::none ? Shape::all : shape;
    what.event.peer = shape == Shape::all ? causality::none : from;
    what.event.communicator = where.id;
    const std::uint32_t number = open(key, what);
    emit({.kind = Kind::post, .flags = Flag::for_collective, .communicator = where.id, .request = number});
}

void Tracer::closed(std::uint64_t key, const MPI_Status& status) {
    const auto found = open_.find(key);
    if (found == open_.end()) return;
    const Open what = found->second;
    open_.erase(found);
    Event event = what.event;
    event.kind = what.closes;
    event.request = what.request;
    if (what.closes == Kind::receive && what.peers) {
        int cancelled = 0;
        ::PMPI_Test_cancelled(&status, &cancelled);
        event.peer = cancelled != 0 ? causality::none : peer(*what.peers, status.MPI_SOURCE);
        event.tag = status.MPI_TAG;
        if (event.peer == causality::none) {
            event = {.kind = Kind::complete, .request = what.request};
            event.flags = Flag::cancelled;
        }
    }
    emit(event);
}

void Tracer::persistent(MPI_Request request, MPI_Comm comm, int rank, int tag, bool send) {
    persistent_.insert_or_assign(bits(request), Persistent{comm, rank, tag, send});
}

void Tracer::starts(MPI_Request request) {
    const auto found = persistent_.find(bits(request));
    if (found == persistent_.end()) return;
    const Persistent& what = found->second;
    if (what.peer == MPI_PROC_NULL) return;
    if (what.send)
        sends(what.comm, what.peer, what.tag, request);
    else
        posts_receive(what.comm, request, what.peer == MPI_ANY_SOURCE || what.tag == MPI_ANY_TAG);
}

void Tracer::close() {
    if (stopped_ || !writer_) return;
    if (const auto done = writer_->close(); !done) failed(done.error());
}

void Tracer::flush() {
    if (stopped_ || !writer_) return;
    if (const auto done = writer_->flush(); !done) failed(done.error());
}

}  // namespace cairn::mpi
