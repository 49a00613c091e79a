// record --checkpoints: each process takes checkpoints by itself (basic ones), and a protocol forces others
// before some messages are delivered, so that checkpoints of all belong together (communication-induced
// checkpointing, causality/protocol/). What is kept of a checkpoint is its place in the trace and in the
// record: the state of the process there is what a run of this rank alone comes to.
//
// The protocol's control data goes as a message of its own for each message of the program's, over a
// communicator that nobody else has. Which belongs to which is told by counting (docs/mpi.md).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "causality/event.h"
#include "causality/protocol/protocol.h"
#include "mpi/interposer/mpi_library.h"

namespace cairn::mpi {

class Induced {
  public:
    // `wish`: "PROTOCOL N calls" or "PROTOCOL S seconds". Collective over all processes of the job.
    [[nodiscard]] static Result<std::unique_ptr<Induced>> begin(const std::string& wish);

    // As the trace has it: sends, posts of receives, what closes them. Before a receive is in the trace its
    // control data is waited for, and a forced checkpoint taken.
    void happens(const causality::Event& event);
    // The request of a post that happens next; none for a message that a probe has found.
    void about_to_post(MPI_Request request) { posting_ = request; }
    // A collective operation, its number in the trace, and the ranks in the world of all who are in it.
    void enters(std::uint32_t request, const causality::Event& operation,
                const std::vector<causality::Process>& members);
    void returns(std::uint32_t request);

    // Takes a basic checkpoint if it is time.
    void behind_call();
    // Before MPI_Finalize, by all. Says what it came to, once.
    void finish();

  private:
    struct Key {
        std::uint32_t communicator = 0;
        std::int32_t tag = 0;
        std::uint32_t collective = 0;  // 0: a message; else the how-manyth operation on the communicator
        auto operator<=>(const Key&) const = default;
    };
    struct Outgoing {
        MPI_Request request = MPI_REQUEST_NULL;
        std::vector<std::uint8_t> bytes;
    };
    struct Receive {
        std::uint32_t communicator = 0;
        causality::Process peer = causality::none;
        std::int32_t tag = 0;
        bool any_source = false, any_tag = false;
        MPI_Request handle = MPI_REQUEST_NULL;
    };
    struct Operation {
        Key key;
        std::vector<causality::Process> senders;  // that this process waits for
    };
    using Piggyback = std::vector<std::uint8_t>;

    Induced(causality::ProtocolKind kind, std::uint64_t calls, double seconds);
    void send(causality::Process to, const Key& key);
    void receive(const causality::Event& event);
    void arrive(causality::Process from, const Piggyback& piggyback);
    void take_checkpoint(bool forced);
    [[nodiscard]] Piggyback take(causality::Process from, const Key& key, std::size_t index);
    void fetch();
    void reap(bool all);
    [[nodiscard]] std::size_t earlier_receives(const causality::Event& event);
    [[nodiscard]] bool took_one_of(const Receive& receive, const causality::Event& event);
    [[nodiscard]] bool due();

    std::unique_ptr<causality::Protocol> protocol_;
    std::string name_;
    MPI_Comm control_ = MPI_COMM_NULL;
    std::vector<std::uint8_t> room_;  // for one piggyback; empty: the protocol has none, and nothing is sent
    std::deque<Outgoing> outgoing_;
    std::map<std::pair<causality::Process, Key>, std::deque<Piggyback>> arrived_;
    std::map<std::uint32_t, Receive> open_;  // by request, whose numbers grow: in the order of posting
    std::map<std::uint32_t, Operation> operations_;
    std::map<std::uint32_t, std::uint32_t> begun_;  // operations on each communicator
    MPI_Request posting_ = MPI_REQUEST_NULL;
    std::vector<unsigned long long> sent_, received_;  // control messages, by process

    std::uint64_t every_calls_ = 0, last_call_ = 0;
    std::int64_t every_ns_ = 0, last_ns_ = 0;
    unsigned long long basic_ = 0, forced_ = 0, messages_ = 0, bytes_ = 0, most_bytes_ = 0, unsure_ = 0;
};

}  // namespace cairn::mpi
