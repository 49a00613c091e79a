#include "mpi/interposer/induced.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sstream>

#include "mpi/interposer/session.h"

namespace cairn::mpi {

using causality::Event;
using causality::Flag;
using causality::Kind;
using causality::Process;
using causality::Shape;

namespace {

constexpr int control_tag = 0;

std::int64_t monotonic_ns() {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

Process own_rank() {
    return static_cast<Process>(session->rank);
}

[[noreturn]] void broken(const std::string& why) {
    say("the control data of the checkpoints' protocol is damaged: " + why);
    std::abort();
}

// Whose part in it is sent, and who gets it (Shape).
bool gives(const Event& operation, Process who) {
    if (operation.shape == Shape::all) return true;
    return (operation.shape == Shape::from_root) == (operation.peer == who);
}
bool gets(const Event& operation, Process who) {
    return operation.shape == Shape::all || !gives(operation, who);
}

}  // namespace

Induced::Induced(causality::ProtocolKind kind, std::uint64_t calls, double seconds)
    : protocol_(causality::make_protocol(kind, own_rank(), static_cast<Process>(session->size))),
      name_(causality::name(kind)),
      room_(protocol_->most_piggyback()),
      sent_(static_cast<std::size_t>(session->size)),
      received_(static_cast<std::size_t>(session->size)),
      every_calls_(calls),
      every_ns_(static_cast<std::int64_t>(seconds * 1e9)),
      last_ns_(monotonic_ns()) {}

Result<std::unique_ptr<Induced>> Induced::begin(const std::string& wish) {
    std::istringstream words(wish);
    std::string protocol, unit;
    double every = 0;
    words >> protocol >> every >> unit;
    const auto kind = causality::protocol_named(protocol);
    if (!kind || !(every > 0)) return fail("checkpoints: '{}' is no protocol and interval", wish);
    const bool calls = unit == "calls";
    std::unique_ptr<Induced> made(
        new Induced(*kind, calls ? static_cast<std::uint64_t>(every) : 0, calls ? 0 : every));
    real.Comm_dup(MPI_COMM_WORLD, &made->control_);
    return made;
}

void Induced::happens(const Event& event) {
    if (event.kind == Kind::send) {
        if (event.peer != own_rank()) send(event.peer, {event.communicator, event.tag});
    } else if (event.kind == Kind::post && !event.has(Flag::for_collective)) {
        open_[event.request] = {.communicator = event.communicator,
                                .peer = event.peer,
                                .tag = event.tag,
                                .any_source = event.has(Flag::asks) && event.has(Flag::any_source),
                                .any_tag = event.has(Flag::asks) && event.has(Flag::any_tag),
                                .handle = posting_};
        posting_ = MPI_REQUEST_NULL;
    } else if (event.kind == Kind::receive) {
        receive(event);
    } else if (event.kind == Kind::complete) {
        open_.erase(event.request);
    }
}

void Induced::send(Process to, const Key& key) {
    const std::size_t size = protocol_->send(to, room_);
    bytes_ += size;
    most_bytes_ = std::max<unsigned long long>(most_bytes_, size);
    ++messages_;
    if (room_.empty()) return;
    ++sent_[to];
    Outgoing& message = outgoing_.emplace_back();
    message.bytes.resize(sizeof key + size);
    std::memcpy(message.bytes.data(), &key, sizeof key);
    std::copy_n(room_.begin(), size, message.bytes.begin() + sizeof key);
    real.Isend(message.bytes.data(), static_cast<int>(message.bytes.size()), MPI_BYTE, static_cast<int>(to),
               control_tag, control_, &message.request);
    reap(false);
}

void Induced::reap(bool all) {
    while (!outgoing_.empty()) {
        int done = 0;
        if (all)
            real.Wait(&outgoing_.front().request, MPI_STATUS_IGNORE);
        else if (real.Test(&outgoing_.front().request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done == 0)
            return;
        outgoing_.pop_front();
    }
}

// Everything that is there, since what lies in the MPI's library makes each look at it longer (early.h).
void Induced::fetch() {
    for (bool found = false;;) {
        int flag = 0, size = 0;
        MPI_Message message = MPI_MESSAGE_NULL;
        MPI_Status status;
        real.Improbe(MPI_ANY_SOURCE, control_tag, control_, &flag, &message, &status);
        if (flag == 0) {
            if (!found) let_others_run();
            return;
        }
        found = true;
        ::PMPI_Get_count(&status, MPI_BYTE, &size);
        std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size));
        real.Mrecv(bytes.data(), size, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        Key key;
        if (bytes.size() < sizeof key) broken("a message is too short");
        std::memcpy(&key, bytes.data(), sizeof key);
        const auto from = static_cast<Process>(status.MPI_SOURCE);
        ++received_[from];
        arrived_[{from, key}].emplace_back(bytes.begin() + sizeof key, bytes.end());
    }
}

// The sender has sent it together with its message, or before it enters the operation.
Induced::Piggyback Induced::take(Process from, const Key& key, std::size_t index) {
    if (room_.empty()) return {};
    for (;;) {
        const auto found = arrived_.find({from, key});
        if (found != arrived_.end() && found->second.size() > index) {
            Piggyback taken = std::move(found->second[index]);
            found->second.erase(found->second.begin() + static_cast<std::ptrdiff_t>(index));
            if (found->second.empty()) arrived_.erase(found);
            return taken;
        }
        fetch();
    }
}

// This receive was posted earlier and could have a message of this channel: it has an earlier one, or one of
// another channel. MPI has matched it in any case, else it would have got this message.
bool Induced::took_one_of(const Receive& receive, const Event& event) {
    if (!receive.any_source && !receive.any_tag) return true;
    constexpr int most_looks = 100'000;
    for (int looks = 0; looks < most_looks && receive.handle != MPI_REQUEST_NULL; ++looks) {
        int done = 0;
        MPI_Status status;
        if (real.Request_get_status(receive.handle, &done, &status) != MPI_SUCCESS) break;
        if (done == 0) {
            let_others_run();
            continue;
        }
        return session->tracer->peer_of(receive.handle, status.MPI_SOURCE) == event.peer &&
               status.MPI_TAG == event.tag;
    }
    ++unsure_;
    return false;
}

// Messages of a channel come in the order of posting; what the program hasn't completed yet may have taken
// earlier ones than this.
std::size_t Induced::earlier_receives(const Event& event) {
    std::size_t count = 0;
    for (const auto& [request, each] : open_) {
        if (request == event.request) break;
        const bool could = each.communicator == event.communicator &&
                           (each.any_source || each.peer == event.peer) &&
                           (each.any_tag || each.tag == event.tag);
        if (could && took_one_of(each, event)) ++count;
    }
    return count;
}

void Induced::receive(const Event& event) {
    if (event.peer != own_rank()) {
        // A receive without a request is over before another is posted, so all that are open came earlier.
        const std::size_t index = room_.empty() ? 0 : earlier_receives(event);
        arrive(event.peer, take(event.peer, {event.communicator, event.tag}, index));
    }
    open_.erase(event.request);
}

void Induced::arrive(Process from, const Piggyback& piggyback) {
    const auto forced = protocol_->receive(from, piggyback);
    if (!forced) broken(forced.error().what);
    if (*forced) take_checkpoint(true);
    protocol_->deliver();
}

void Induced::enters(std::uint32_t request, const Event& operation, const std::vector<Process>& members) {
    const std::uint32_t number = ++begun_[operation.communicator];
    Operation& mine = operations_[request];
    mine.key = {operation.communicator, 0, number};
    for (const Process each : members) {
        if (each == own_rank() || each == causality::none) continue;
        if (gives(operation, own_rank()) && gets(operation, each)) send(each, mine.key);
        if (gets(operation, own_rank()) && gives(operation, each)) mine.senders.push_back(each);
    }
}

void Induced::returns(std::uint32_t request) {
    const auto found = operations_.find(request);
    if (found == operations_.end()) return;
    const Operation operation = std::move(found->second);
    operations_.erase(found);
    // By their ranks, as the simulator has them too (causality/simulate.cpp).
    for (const Process from : operation.senders) arrive(from, take(from, operation.key, 0));
}

void Induced::take_checkpoint(bool forced) {
    protocol_->take_checkpoint();
    ++(forced ? forced_ : basic_);
    session->tracer->checkpoint(forced);
    last_call_ = session->events;
    last_ns_ = monotonic_ns();
}

bool Induced::due() {
    if (every_calls_ != 0) return session->events - last_call_ >= every_calls_;
    return monotonic_ns() - last_ns_ >= every_ns_;
}

void Induced::behind_call() {
    if (due()) take_checkpoint(false);
}

// Whoever frees the communicator must have got all that was sent to it.
void Induced::finish() {
    std::vector<unsigned long long> expected(sent_.size());
    ::PMPI_Alltoall(sent_.data(), 1, MPI_UNSIGNED_LONG_LONG, expected.data(), 1, MPI_UNSIGNED_LONG_LONG,
                    control_);
    while (received_ != expected) fetch();
    reap(true);
    unsigned long long mine[] = {basic_, forced_, bytes_, messages_, unsure_}, sums[std::size(mine)] = {};
    ::PMPI_Reduce(mine, sums, std::size(mine), MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, control_);
    unsigned long long most = 0;
    ::PMPI_Reduce(&most_bytes_, &most, 1, MPI_UNSIGNED_LONG_LONG, MPI_MAX, 0, control_);
    real.Comm_free(&control_);
    if (session->rank != 0) return;
    std::fprintf(
        stderr,
        "cairn mpi: %s: %llu basic and %llu forced checkpoints of %d ranks; %llu bytes of control data "
        "with %llu messages, %llu at most with one\n",
        name_.c_str(), sums[0], sums[1], session->size, sums[2], sums[3], most);
    if (sums[4] != 0)
        std::fprintf(
            stderr,
            "cairn mpi: %s: of %llu receives it couldn't be told whether an earlier one, which takes "
            "from any, had a message of the same sender: their control data may be another message's\n",
            name_.c_str(), sums[4]);
}

}  // namespace cairn::mpi
