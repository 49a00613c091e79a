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

namespace cairn::mpi {

// Who is in a communicator, by rank in the world; of an intercommunicator both groups.
struct Members {
    std::vector<causality::Process> own, remote;
    bool inter = false;
};
[[nodiscard]] Members members_of(MPI_Comm comm);

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
    };
    [[nodiscard]] InCall& call() { return call_; }

    // Of each call: at its beginning and before it returns.
    void begin(const Call& call, void* at);
    void end();
    // Another run may have something else here.
    void by_chance() { call_.chance = true; }
    // It is a probe that found this message.
    void found(MPI_Comm comm, int source, int tag);

    void sends(MPI_Comm comm, int dest, int tag);
    void sends(MPI_Comm comm, int dest, int tag, MPI_Request request);
    void received(MPI_Comm comm, int source, int tag, bool wild);
    void posts_receive(MPI_Comm comm, MPI_Request request, bool wild);
    void matched(MPI_Comm comm, MPI_Message message, int source, int tag);
    void receives_matched(MPI_Message message);
    void receives_matched(MPI_Message message, MPI_Request request);
    void collective(MPI_Comm comm, causality::Shape shape, int root);
    void collective(MPI_Comm comm, causality::Shape shape, int root, MPI_Request request);
    // Of a process with several threads: others' calls may come between the two.
    void enters(MPI_Comm comm, causality::Shape shape, int root, const void* key);
    void returns(const void* key);
    // The MPI has completed what had this handle.
    void closed(std::uint64_t key, const MPI_Status& status);
    // As begun by MPI_Start: what it was made for.
    void persistent(MPI_Request request, MPI_Comm comm, int peer, int tag, bool send);
    void starts(MPI_Request request);

    // Of a communicator: its number, and the rank in the world of one that a message may go to.
    [[nodiscard]] std::uint32_t number(MPI_Comm comm) { return known(comm).id; }
    [[nodiscard]] const std::vector<causality::Process>& peers(MPI_Comm comm) { return *known(comm).peers; }

    // A communicator was made from this one, or from these two processes' groups.
    void made(MPI_Comm parent, MPI_Comm comm);
    void duplicated(MPI_Comm parent, MPI_Comm comm);
    void gone(MPI_Comm comm) { communicators_.erase(bits(comm)); }

    // How many messages went to each process and came from it, and what is open.
    [[nodiscard]] const std::vector<unsigned long long>& sent() const { return sent_; }
    [[nodiscard]] const std::vector<unsigned long long>& received() const { return received_; }
    [[nodiscard]] std::size_t open_requests() const { return open_.size(); }
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
    };
    explicit Tracer(std::optional<causality::TraceWriter> writer) : writer_(std::move(writer)) {}
    const Known& known(MPI_Comm comm);
    // `fed`: alone, and the record has just said who is in it.
    const Known& add(std::uint32_t parent, MPI_Comm comm, bool fed = false);
    std::uint32_t new_id(std::uint64_t key);
    void define(const Known& known);
    static causality::Process peer(const std::vector<causality::Process>& peers, int rank);
    static causality::Process peer(const Known& known, int rank) { return peer(*known.peers, rank); }
    void emit(causality::Event event);
    void opens_collective(MPI_Comm comm, causality::Shape shape, int root, std::uint64_t key);
    std::uint32_t open(std::uint64_t key, Open what);
    std::uint32_t place(const Call& call, void* at);
    void failed(const Error& error);

    std::optional<causality::TraceWriter> writer_;
    std::uint32_t rank_ = 0;
    std::unordered_map<std::uint64_t, Known> communicators_;
    std::map<std::uint64_t, std::uint32_t> times_;  // how often a communicator like this was made
    std::unordered_multimap<std::uint64_t, Open> open_;
    std::unordered_map<std::uint64_t, Persistent> persistent_;
    std::unordered_map<std::uint64_t, std::uint32_t> places_;  // by address and function
    std::uint32_t next_request_ = 0;
    std::uint64_t events_ = 0;
    std::vector<unsigned long long> sent_, received_;
    InCall call_;
    bool stopped_ = false;
};

}  // namespace cairn::mpi
