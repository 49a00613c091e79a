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

// What isn't in a block lies in a part of the file that is kept for it.
constexpr std::size_t block_bytes = 16U << 10;

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
        writer = TRY(causality::TraceWriter::create(path, static_cast<Process>(session->size), block_bytes,
                                                    static_cast<Process>(session->rank)));
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

void Tracer::begin(const Call& call, void* at, int to, MPI_Comm comm, int tag) {
    call_.place = place(call, at);
    if (writer_) call_.time = now();
    call_.first = true;
    call_.open = false;
    call_.chance = false;
    call_.alone = {};
    if (!writer_) return;
    switch (call.fn) {
        case Fn::Recv:
        case Fn::Probe:
        case Fn::Mprobe:
            return stands_at_receive(comm, to, tag);
        case Fn::Send:
        case Fn::Ssend:
        case Fn::Rsend: {
            const Known& where = known(comm);
            const Process whom = peer(where, to);
            if (whom == causality::none) return stand({});
            return stand({.kind = Kind::send, .peer = whom, .communicator = where.id, .tag = tag});
        }
        default:
            return stand({});
    }
}

void Tracer::stand(Event event, std::span<const std::uint32_t> requests, bool any) {
    if (stopped_ || !writer_ || !writer_->tail() || session->threaded) return;
    event.place = call_.place;
    event.time = call_.time;
    writer_->tail()->enter(event, requests, any);
    stands_ = true;
}

void Tracer::leave() {
    if (stands_) writer_->tail()->leave();
    stands_ = false;
}

void Tracer::stands_at_receive(MPI_Comm comm, int source, int tag) {
    if (!writer_) return;
    const Known& where = known(comm);
    const Asked asked{source, tag};
    const Process from = peer(where, source);
    if (from == causality::none && !asked.any_source()) return stand({});
    stand({.kind = Kind::receive,
           .flags = asked.flags(),
           .peer = from,
           .communicator = where.id,
           .tag = asked.any_tag() ? 0 : tag});
}

void Tracer::stands_in(MPI_Comm comm, Shape shape, int root) {
    if (!stands_) return;
    const Known& where = known(comm);
    const Process from = where.inter ? causality::none : peer(where, root);
    stand({.kind = Kind::collective,
           .shape = from == causality::none ? Shape::all : shape,
           .peer = shape == Shape::all ? causality::none : from,
           .communicator = where.id});
}

void Tracer::stands_at(int count, const MPI_Request* requests, bool any) {
    if (!stands_) return;
    waited_.clear();
    for (int i = 0; i < count; ++i)
        if (const auto found = open_.find(bits(requests[i])); found != open_.end())
            waited_.push_back(found->second.back().request);
    if (!waited_.empty()) stand({.kind = Kind::complete}, waited_, any);
}

void Tracer::size(Event& event, const Sized& what) {
    if (what.type == MPI_DATATYPE_NULL || !writer_) return;
    const TypeNames::Known& known = types_.of(what.type);
    event.bytes = known.bytes_of(what.count);
    if (stopped_) return;
    if (const auto number = writer_->type(known.name))
        event.type = *number;
    else
        failed(number.error());
}

void Tracer::made(const Call& call, causality::Leaked what, std::uint64_t key) {
    objects_.made(what, key, place(call, caller(call)));
}

void Tracer::freed(causality::Leaked what, std::uint64_t key) {
    if (what == causality::Leaked::type) types_.forget(key);
    objects_.freed(what, key);
}

void Tracer::gone(MPI_Comm comm) {
    communicators_.erase(bits(comm));
    objects_.freed(causality::Leaked::communicator, bits(comm));
}

Process Tracer::peer_of(MPI_Request request, int rank) const {
    const auto found = open_.find(bits(request));
    if (found == open_.end() || !found->second.back().peers) return causality::none;
    return peer(*found->second.back().peers, rank);
}

void Tracer::checkpoint(bool forced) {
    if (stopped_ || !writer_) return;
    ++events_;
    const Event event{.kind = Kind::checkpoint,
                      .flags = static_cast<std::uint8_t>(forced ? Flag::forced : 0),
                      .place = call_.place,
                      .time = now()};
    if (const auto done = writer_->append(rank_, event); !done) failed(done.error());
}

void Tracer::emit(Event event, bool before_return) {
    if (session->induced) session->induced->happens(event);
    if (event.kind == Kind::send) ++sent_[event.peer];
    if (event.kind == Kind::receive) ++received_[event.peer];
    if (stopped_) return;
    stand_within();
    if (event.kind == Kind::collective) stop_inside_if_due();
    event.place = call_.place;
    if (writer_) {
        const std::int64_t time = now();
        event.time = event.timed_at_call() ? call_.time : time;
        // The clock may have been put back.
        event.took = before_return ? 0 : std::max<std::int64_t>(time - call_.time, 0);
    }
    if (!call_.first) event.flags |= Flag::joined;
    if (call_.chance) event.flags |= Flag::nondeterministic;
    call_.first = false;
    ++events_;
    // What it waited for has come, whatever else the call does.
    if (event.kind == Kind::collective || event.kind == Kind::receive) leave();
    if (!writer_) return;
    // Of several threads others' events may come between.
    call_.open = before_return && event.kind == Kind::send && !session->threaded;
    const auto done = call_.open ? writer_->append_open(rank_, event) : writer_->append(rank_, event);
    if (!done) failed(done.error());
}

void Tracer::end() {
    if (call_.first) emit(call_.alone);
    if (call_.open && !stopped_) writer_->lasted(rank_, now() - call_.time);
    call_.open = false;
    leave();
}

void Tracer::found(MPI_Comm comm, const Asked& asked, int source, int tag) {
    const Known& where = known(comm);
    if (const Process from = peer(where, source); from != causality::none)
        call_.alone = {.flags = asked.flags(), .peer = from, .communicator = where.id, .tag = tag};
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
    objects_.made(causality::Leaked::communicator, bits(comm), call_.place);
}

void Tracer::duplicated(MPI_Comm parent, MPI_Comm comm) {
    Known copy = known(parent);
    copy.id = new_id(mix(copy.id, 3));
    define(copy);
    communicators_.insert_or_assign(bits(comm), std::move(copy));
    objects_.made(causality::Leaked::communicator, bits(comm), call_.place);
}

Process Tracer::peer(const std::vector<Process>& peers, int rank) {
    if (rank < 0 || static_cast<std::size_t>(rank) >= peers.size()) return causality::none;
    return peers[static_cast<std::size_t>(rank)];
}

std::uint32_t Tracer::open(std::uint64_t key, Open what) {
    what.request = ++next_request_;
    open_[key].push_back(what);
    ++open_requests_;
    return what.request;
}

std::optional<Tracer::Open> Tracer::take(std::uint64_t key) {
    const auto found = open_.find(key);
    if (found == open_.end()) return std::nullopt;
    Open what = std::move(found->second.back());
    found->second.pop_back();
    if (found->second.empty()) open_.erase(found);
    --open_requests_;
    return what;
}

void Tracer::sends(MPI_Comm comm, int dest, int tag, Event event, const MPI_Request* request) {
    const Known& where = known(comm);
    event.peer = peer(where, dest);
    if (event.peer == causality::none) return;
    event.kind = Kind::send;
    event.communicator = where.id;
    event.tag = tag;
    if (request != nullptr) event.request = open(bits(*request), {});
    emit(event, request == nullptr);
}

void Tracer::sends(MPI_Comm comm, int dest, int tag, Sized what) {
    Event event;
    size(event, what);
    sends(comm, dest, tag, event, nullptr);
}

void Tracer::sends(MPI_Comm comm, int dest, int tag, Sized what, MPI_Request request) {
    Event event;
    size(event, what);
    sends(comm, dest, tag, event, &request);
}

void Tracer::received(MPI_Comm comm, const Asked& asked, int source, int tag, Sized room) {
    const Known& where = known(comm);
    const Process from = peer(where, source);
    if (from == causality::none) return;
    if (asked.flags() != 0) call_.chance = true;
    Event event{
        .kind = Kind::receive, .flags = asked.flags(), .peer = from, .communicator = where.id, .tag = tag};
    size(event, room);
    emit(event);
}

void Tracer::posts_receive(MPI_Comm comm, MPI_Request request, const Asked& asked, Sized room) {
    Event event;
    size(event, room);
    posts_receive(comm, request, asked, event);
}

void Tracer::posts_receive(MPI_Comm comm, MPI_Request request, const Asked& asked, Event event) {
    const Known& where = known(comm);
    event.flags = asked.flags();
    event.communicator = where.id;
    Open what;
    what.closes = Kind::receive;
    what.peers = where.peers;
    what.event = event;
    if (asked.flags() != 0) what.event.flags |= Flag::nondeterministic;
    event.kind = Kind::post;
    event.flags |= Flag::asks;
    event.peer = peer(where, asked.source);
    event.tag = asked.any_tag() ? 0 : asked.tag;
    event.request = open(bits(request), what);
    if (session->induced) session->induced->about_to_post(request);
    emit(event);
}

void Tracer::matched(MPI_Comm comm, MPI_Message message, const Asked& asked, int source, int tag) {
    const Known& where = known(comm);
    const Process from = peer(where, source);
    if (from == causality::none) return;
    Open what;
    what.closes = Kind::receive;
    what.event.peer = from;
    what.event.tag = tag;
    what.event.communicator = where.id;
    const std::uint32_t number = open(bits(message) | of_message, what);
    emit({.kind = Kind::post,
          .flags = asked.flags(),
          .peer = from,
          .communicator = where.id,
          .tag = tag,
          .request = number});
}

void Tracer::receives_matched(MPI_Message message, Sized room) {
    const std::uint64_t key = bits(message) | of_message;
    if (const auto found = open_.find(key); found != open_.end()) size(found->second.back().event, room);
    closed(key, MPI_Status());
}

void Tracer::receives_matched(MPI_Message message, MPI_Request request, Sized room) {
    auto what = take(bits(message) | of_message);
    if (!what) return;
    size(what->event, room);
    open_[bits(request)].push_back(std::move(*what));
    ++open_requests_;
}

void Tracer::collective(MPI_Comm comm, Shape shape, int root) {
    if (session->induced) {
        // What goes into an operation and what comes out of it may have a checkpoint in between.
        const std::uint64_t key = of_message | bits(comm);
        opens_collective(comm, shape, root, key);
        return closed(key, MPI_Status());
    }
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
    if (session->induced) session->induced->enters(number, what.event, where.members);
    const bool blocking = (key & of_message) != 0;  // its handle is none of a request
    emit({.kind = Kind::post, .flags = Flag::for_collective, .communicator = where.id, .request = number},
         blocking);
}

void Tracer::closed(std::uint64_t key, const MPI_Status& status) {
    const auto taken = take(key);
    if (!taken) return;
    const Open& what = *taken;
    Event event = what.event;
    event.kind = what.closes;
    event.request = what.request;
    if (session->induced && event.kind == Kind::collective) session->induced->returns(what.request);
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

void Tracer::persistent(MPI_Request request, MPI_Comm comm, int rank, int tag, Sized what, bool send) {
    Event event;
    size(event, what);
    persistent_.insert_or_assign(bits(request), Persistent{comm, rank, tag, send, event.bytes, event.type});
    objects_.made(causality::Leaked::request, bits(request), call_.place);
}

void Tracer::no_longer_persistent(MPI_Request request) {
    objects_.freed(causality::Leaked::request, bits(request));
}

void Tracer::starts(MPI_Request request) {
    const auto found = persistent_.find(bits(request));
    if (found == persistent_.end()) return;
    const Persistent& what = found->second;
    if (what.peer == MPI_PROC_NULL) return;
    const Event event{.bytes = what.bytes, .type = what.type};
    if (what.send)
        sends(what.comm, what.peer, what.tag, event, &request);
    else
        posts_receive(what.comm, request, {what.peer, what.tag}, event);
}

void Tracer::close() {
    if (stopped_ || !writer_) return;
    leave();
    for (causality::Leak leak : objects_.left()) {
        leak.process = rank_;
        if (const auto done = writer_->leak(leak); !done) return failed(done.error());
    }
    if (const auto done = writer_->close(); !done) failed(done.error());
}

void Tracer::flush() {
    if (stopped_ || !writer_) return;
    if (const auto done = writer_->flush(); !done) failed(done.error());
}

}  // namespace cairn::mpi
