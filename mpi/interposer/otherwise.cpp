#include "mpi/interposer/otherwise.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "mpi/interposer/heard_message.h"

namespace cairn::mpi {

bool feeding_otherwise = false;

namespace {

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

}  // namespace

void keep_heard() {
    keeping = feeding_otherwise = true;
}

int heard_in_file() {
    if (!last_heard) return -1;
    Parcel parcel;
    parcel.put(*last_heard);
    return parcel.file();
}

void deliver_otherwise(int file, std::uint64_t at, std::uint64_t later) {
    AnotherOrder order;
    order.at = at;
    order.later = later;
    order.other = Parcel(file).take_heard();
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
    if (order == nullptr || event < order->at || !is_message) return give_heard(mine, comm, status, into);
    if (asked.by_itself)
        depart("messages in this order",
               "one that was found by a probe, or looked at, before it is received");
    recorded_instead.emplace();
    tell_status(mine, *recorded_instead);
    if (!order->begun) {
        order->begun = true;
        order->other.comm = comm;
        order->waiting.push_back(std::move(mine));
        return give_heard(order->other, comm, status, into);
    }
    // It came here in the record, and has been received by now.
    if (event != order->later) order->waiting.push_back(std::move(mine));
    const HeardMessage taken = next_for(*order, comm, asked);
    if (event >= order->later && order->waiting.empty()) {
        another_order.reset();
        feeding_otherwise = keeping;
    }
    return give_heard(taken, comm, status, into);
}

MPI_Status as_recorded(const MPI_Status& own) {
    const MPI_Status status = recorded_instead.value_or(own);
    recorded_instead.reset();
    return status;
}

}  // namespace cairn::mpi
