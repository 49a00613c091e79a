// Writes a trace for `cairn causality` (docs/trace-format.md): who sent to whom and received from whom, where
// in the source.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "causality/trace_writer.h"
#include "mpi/interposer/mpi_library.h"
#include "mpi/interposer/objects.h"

namespace cairn::mpi {

// Who is in a communicator, by rank in the world; of an intercommunicator both groups.
struct Members {
    std::vector<causality::Process> own, remote;
    bool inter = false;
};
[[nodiscard]] Members members_of(MPI_Comm comm);

// Which messages a receive or a probe would take.
struct Asked {
    int source = 0, tag = 0;
    [[nodiscard]] bool any_source() const { return source == MPI_ANY_SOURCE; }
    [[nodiscard]] bool any_tag() const { return tag == MPI_ANY_TAG; }
    [[nodiscard]] std::uint8_t flags() const {
        return static_cast<std::uint8_t>((any_source() ? causality::Flag::any_source : 0) |
                                         (any_tag() ? causality::Flag::any_tag : 0));
    }
};

// What a call sends, or has room for.
struct Sized {
    int count = 0;
    MPI_Datatype type = MPI_DATATYPE_NULL;
};

// One process's. Each call of a wrapper is at least one event; further ones of the same call are joined to
// the first.
class Tracer {
  public:
    // The file `path` must not exist. Without a path it only counts.
    [[nodiscard]] static Result<std::unique_ptr<Tracer>> create(const std::string& path);

    // What is known of the call that is under way.
    struct InCall {
        std::uint32_t place = 0;
        std::int64_t time = 0;
        causality::Event alone;  // what it is if it has no other event
        bool chance = false, first = true;
        bool open = false;  // how long it takes is still to be said
    };
    [[nodiscard]] InCall& call() { return call_; }

    // Of each call: at its beginning and before it returns.
    void begin(const Call& call, void* at, int peer, MPI_Comm comm, int tag);
    void end();
    // What the call that is under way waits for, where begin() can't know it. A process that is killed there
    // leaves it in its trace. Of several threads it isn't said.
    void stands_at_receive(MPI_Comm comm, int source, int tag);
    void stands_in(MPI_Comm comm, causality::Shape shape, int root);
    void stands_at(int count, const MPI_Request* requests, bool any);
    // Another run may have something else here.
    void by_chance() { call_.chance = true; }
    // It is a probe that found this message.
    void found(MPI_Comm comm, const Asked& asked, int source, int tag);

    void sends(MPI_Comm comm, int dest, int tag, Sized what);
    void sends(MPI_Comm comm, int dest, int tag, Sized what, MPI_Request request);
    void received(MPI_Comm comm, const Asked& asked, int source, int tag, Sized room);
    void posts_receive(MPI_Comm comm, MPI_Request request, const Asked& asked, Sized room);
    void matched(MPI_Comm comm, MPI_Message message, const Asked& asked, int source, int tag);
    void receives_matched(MPI_Message message, Sized room);
    void receives_matched(MPI_Message message, MPI_Request request, Sized room);
    void collective(MPI_Comm comm, causality::Shape shape, int root);
    void collective(MPI_Comm comm, causality::Shape shape, int root, MPI_Request request);
    // Of a process with several threads: others' calls may come between the two.
    void enters(MPI_Comm comm, causality::Shape shape, int root, const void* key);
    void returns(const void* key);
    // The MPI has completed what had this handle.
    void closed(std::uint64_t key, const MPI_Status& status);
    // The program gives up a send's request.
    void gave_up(MPI_Request request) { closed(bits(request), MPI_Status()); }
    // Whether its completion will be an event.
    [[nodiscard]] bool will_come(std::uint64_t key) const { return open_.contains(key); }
    // The trace's number of an open request; 0: it isn't one of the trace's.
    [[nodiscard]] std::uint32_t request_number(std::uint64_t key) const {
        const auto found = open_.find(key);
        return found != open_.end() ? found->second.back().request : 0;
    }
    // As begun by MPI_Start: what it was made for.
    void persistent(MPI_Request request, MPI_Comm comm, int peer, int tag, Sized what, bool send);
    void no_longer_persistent(MPI_Request request);
    void starts(MPI_Request request);

    // Of a communicator: its number, and the rank in the world of one that a message may go to.
    [[nodiscard]] std::uint32_t number(MPI_Comm comm) { return known(comm).id; }
    [[nodiscard]] const std::vector<causality::Process>& peers(MPI_Comm comm) { return *known(comm).peers; }

    // A communicator was made from this one, or from these two processes' groups.
    void made(MPI_Comm parent, MPI_Comm comm);
    void duplicated(MPI_Comm parent, MPI_Comm comm);
    void gone(MPI_Comm comm);
    // A call that is no event has made something that has to be freed, or freed it.
    void made(const Call& call, causality::Leaked what, std::uint64_t key);
    void freed(causality::Leaked what, std::uint64_t key);

    // How many messages went to each process and came from it, and what is open.
    [[nodiscard]] const std::vector<unsigned long long>& sent() const { return sent_; }
    [[nodiscard]] const std::vector<unsigned long long>& received() const { return received_; }
    [[nodiscard]] std::size_t open_requests() const { return open_requests_; }
    // Who has this rank in the communicator of an open receive.
    [[nodiscard]] causality::Process peer_of(MPI_Request request, int rank) const;
    // A checkpoint is taken here (induced.h).
    void checkpoint(bool forced);
    // Events so far.
    [[nodiscard]] std::uint64_t events() const { return events_; }
    void close();
    // What has happened so far is in the file then.
    void flush();

  private:
    struct Known {
        std::uint32_t id = 0;
        // By rank: of the other group of an intercommunicator. Open requests outlive their communicators.
        std::shared_ptr<const std::vector<causality::Process>> peers;
        std::vector<causality::Process> members;  // ascending
        bool inter = false;
    };
    struct Open {
        std::uint32_t request = 0;
        causality::Kind closes = causality::Kind::complete;
        causality::Event event;  // what closes it: a receive's peer and tag come from the status
        std::shared_ptr<const std::vector<causality::Process>>
            peers;  // of a receive whose sender isn't known
    };
    struct Persistent {
        MPI_Comm comm;
        int peer, tag;
        bool send;
        std::uint32_t bytes, type;
    };
    explicit Tracer(std::optional<causality::TraceWriter> writer) : writer_(std::move(writer)) {}
    const Known& known(MPI_Comm comm);
    // `fed`: alone, and the record has just said who is in it.
    const Known& add(std::uint32_t parent, MPI_Comm comm, bool fed = false);
    std::uint32_t new_id(std::uint64_t key);
    void define(const Known& known);
    static causality::Process peer(const std::vector<causality::Process>& peers, int rank);
    static causality::Process peer(const Known& known, int rank) { return peer(*known.peers, rank); }
    // `before_return`: its call is still to be made, and may wait: how long it takes isn't known yet.
    void emit(causality::Event event, bool before_return = false);
    void size(causality::Event& event, const Sized& what);
    void stand(causality::Event event, std::span<const std::uint32_t> requests = {}, bool any = false);
    void leave();
    void sends(MPI_Comm comm, int dest, int tag, causality::Event event, const MPI_Request* request);
    void posts_receive(MPI_Comm comm, MPI_Request request, const Asked& asked, causality::Event event);
    std::optional<Open> take(std::uint64_t key);
    void opens_collective(MPI_Comm comm, causality::Shape shape, int root, std::uint64_t key);
    std::uint32_t open(std::uint64_t key, Open what);
    std::uint32_t place(const Call& call, void* at);
    void failed(const Error& error);

    std::optional<causality::TraceWriter> writer_;
    std::uint32_t rank_ = 0;
    std::unordered_map<std::uint64_t, Known> communicators_;
    std::map<std::uint64_t, std::uint32_t> times_;  // how often a communicator like this was made
    // Of requests with one handle (finished sends share one) the last is the first to be closed: who forgets
    // one goes on with others.
    std::unordered_map<std::uint64_t, std::vector<Open>> open_;
    std::size_t open_requests_ = 0;
    std::vector<std::uint32_t> waited_;
    bool stands_ = false;
    TypeNames types_;
    Objects objects_;
    std::unordered_map<std::uint64_t, Persistent> persistent_;
    std::unordered_map<std::uint64_t, std::uint32_t> places_;  // by address and function
    std::uint32_t next_request_ = 0;
    std::uint64_t events_ = 0;
    std::vector<unsigned long long> sent_, received_;
    InCall call_;
    bool stopped_ = false;
};

}  // namespace cairn::mpi
