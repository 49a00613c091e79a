#include "mpi/interposer/another_first.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <vector>

#include "mpi/interposer/complete.h"
#include "mpi/interposer/heard_message.h"
#include "mpi/interposer/outcomes.h"

namespace cairn::mpi {

bool noting = false;

namespace {

int offered_count = 0;
const MPI_Request* offered_requests = nullptr;

struct Noted {
    enum What : std::uint32_t { answer, number, completion, failure } what = completion;
    std::uint32_t request = 0;  // the trace's number of it; 0: what goes to nobody
    std::uint64_t call = 0;
    bool receive = false;  // the record has a message for it
    bool told = false;     // it could have come out otherwise
    std::uint64_t outcome = 0;
};
// What is noted beyond this is not followed.
constexpr std::size_t most_noted = 1U << 20;
std::vector<Noted> all_noted;
std::uint32_t wanted_request = 0;
std::optional<HeardMessage> wanted_message;

struct Completed {
    std::uint32_t request = 0;
    bool receive = false;
    std::optional<HeardMessage> message;
};

struct OtherOrder {
    std::uint64_t call = 0;
    std::uint32_t first = 0;
    std::optional<HeardMessage> message;
    std::deque<Noted> recorded;
    std::uint64_t until = 0;         // the last call of which it is noted what the record says
    std::vector<Completed> waiting;  // completed in the record by now, and not here
    bool given = false;
};
std::optional<OtherOrder> other_order;

void note_down(Noted::What what) {
    if (all_noted.size() < most_noted) {
        Noted& noted = all_noted.emplace_back();
        noted.what = what;
        noted.call = session->events;
    }
}

// What the record says of this call.
struct Said {
    std::optional<bool> yes;
    std::size_t completions = 0;
};

Said hear_call() {
    Said said;
    auto& recorded = other_order->recorded;
    if (session->events > other_order->until) depart_in_another_order("what comes so much later");
    while (!recorded.empty() && recorded.front().call < session->events) recorded.pop_front();
    for (; !recorded.empty() && recorded.front().call == session->events; recorded.pop_front()) {
        const Noted& noted = recorded.front();
        if (noted.what == Noted::answer) {
            said.yes = recorded_answer();
            continue;
        }
        if (noted.what == Noted::number) {
            static_cast<void>(recorded_number());
            continue;
        }
        Completed now{.request = noted.request, .receive = noted.receive, .message = {}};
        if (noted.receive) now.message = read_heard(MPI_COMM_NULL);
        if (noted.what == Noted::failure) depart_in_another_order("a call that failed");
        if (noted.told) came_to(noted.outcome);
        ++said.completions;
        if (!other_order->given || now.request == 0 || now.request != other_order->first)
            other_order->waiting.push_back(std::move(now));
    }
    // It comes first, whatever has come by now.
    if (!other_order->given) {
        other_order->given = true;
        const bool receive = other_order->message.has_value();
        other_order->waiting.insert(
            other_order->waiting.begin(),
            {.request = other_order->first, .receive = receive, .message = std::move(other_order->message)});
    }
    return said;
}

std::uint32_t trace_number(MPI_Request request) {
    return session->tracer->request_number(bits(request));
}

bool receives(const Posted& posted) {
    return !posted.send && !posted.collective;
}

// Its place in `waiting`.
std::optional<std::size_t> found_for(MPI_Request request) {
    const Posted* posted = known(request);
    if (posted == nullptr) return std::nullopt;
    const std::uint32_t number = trace_number(request);
    for (std::size_t i = 0; i < other_order->waiting.size(); ++i)
        if (other_order->waiting[i].request == number &&
            (number != 0 || other_order->waiting[i].receive == receives(*posted)))
            return i;
    return std::nullopt;
}

// What goes to nobody is complete at any time.
bool may_complete(MPI_Request request) {
    const Posted* posted = known(request);
    return posted == nullptr || trace_number(request) == 0 || found_for(request);
}

int give_in_order(MPI_Request* request, MPI_Status* status) {
    Posted* posted = known(*request);
    if (posted == nullptr) return real.Wait(request, status);
    Completed done;
    done.receive = receives(*posted);
    if (const auto at = found_for(*request)) {
        done = std::move(other_order->waiting[*at]);
        other_order->waiting.erase(other_order->waiting.begin() + static_cast<std::ptrdiff_t>(*at));
    } else if (trace_number(*request) != 0) {
        depart("another request's completion", "the wait for one that isn't completed by now in the record");
    }
    if (posted->collective) depart_in_another_order("a collective operation");
    const std::uint64_t key = bits(*request);
    MPI_Status own;
    MPI_Status* seen = status == MPI_STATUS_IGNORE ? &own : status;
    clear_status(*seen);
    int error = MPI_SUCCESS;
    if (done.receive && done.message)
        error = give_heard(*done.message, posted->comm, *seen, buffer_of(*posted));
    else if (done.receive)
        seen->MPI_SOURCE = MPI_PROC_NULL;
    const bool persistent = posted->persistent;
    completed(key, *seen, error, false);
    if (!persistent) real.Request_free(request);
    return error;
}

std::size_t open_among(int count, const MPI_Request* requests) {
    return static_cast<std::size_t>(
        std::count_if(requests, requests + count, [](MPI_Request each) { return known(each) != nullptr; }));
}

// Of those that have come, and that are among these, the first.
std::optional<int> first_among(int count, const MPI_Request* requests) {
    for (const Completed& each : other_order->waiting)
        for (int i = 0; i < count; ++i) {
            const Posted* posted = known(requests[i]);
            if (posted == nullptr || trace_number(requests[i]) != each.request) continue;
            if (each.request != 0 || each.receive == receives(*posted)) return i;
        }
    return std::nullopt;
}

}  // namespace

Offered::Offered(int count, const MPI_Request* requests) {
    if (!standing_alone) return;
    offered_count = count;
    offered_requests = requests;
}

Offered::~Offered() {
    offered_requests = nullptr;
}

std::string offered_lines() {
    std::string text;
    for (int i = 0; offered_requests != nullptr && i < offered_count; ++i)
        if (known(offered_requests[i]) != nullptr && trace_number(offered_requests[i]) != 0)
            text += fmt::format("{} {}\n", i, trace_number(offered_requests[i]));
    return text;
}

void note_completions(std::uint32_t number) {
    noting = true;
    wanted_request = number;
}

int noted_completions() {
    Parcel parcel;
    parcel.put(all_noted.size() < most_noted ? session->events : all_noted.back().call - 1);
    parcel.put(wanted_message.has_value());
    if (wanted_message) parcel.put(*wanted_message);
    parcel.put(std::uint64_t{all_noted.size()});
    for (const Noted& each : all_noted) parcel.put(each);
    return parcel.file();
}

void note_answer() {
    note_down(Noted::answer);
}

void note_number() {
    note_down(Noted::number);
}

void note_completion(std::uint32_t request, bool receive, bool done) {
    note_down(done ? Noted::completion : Noted::failure);
    if (all_noted.size() == most_noted) return;
    all_noted.back().request = request;
    all_noted.back().receive = receive;
}

void note_outcome(std::uint64_t outcome) {
    if (all_noted.empty() || all_noted.back().call != session->events ||
        all_noted.back().what != Noted::completion)
        return;
    all_noted.back().told = true;
    all_noted.back().outcome = outcome;
}

int feed_noted(std::uint32_t request, const Posted& posted, MPI_Status& status, const WantedMessage& asked) {
    if (request == 0 || request != wanted_request || wanted_message)
        return fed_received(posted.comm, status, buffer_of(posted), asked);
    wanted_message = read_heard(posted.comm);
    return give_heard(*wanted_message, posted.comm, status, buffer_of(posted));
}

void complete_first(int file, std::uint64_t call, std::uint32_t request) {
    Parcel parcel(file);
    OtherOrder order;
    order.call = call;
    order.first = request;
    order.until = parcel.take<std::uint64_t>();
    if (parcel.take<bool>()) order.message = parcel.take_heard();
    for (auto left = parcel.take<std::uint64_t>(); left > 0; --left)
        order.recorded.push_back(parcel.take<Noted>());
    other_order = std::move(order);
}

bool in_another_order() {
    if (!other_order || session->events < other_order->call) return false;
    if (!other_order->given || !other_order->recorded.empty() || !other_order->waiting.empty()) return true;
    other_order.reset();
    return false;
}

void depart_in_another_order(const char* what) {
    depart("requests in this order", fmt::format("{}, which isn't followed in another order", what));
}

int wait_in_order(MPI_Request* request, MPI_Status* status) {
    static_cast<void>(hear_call());
    return give_in_order(request, status);
}

int wait_all_in_order(int count, MPI_Request* requests, MPI_Status* statuses) {
    static_cast<void>(hear_call());
    int result = MPI_SUCCESS;
    for (int i = 0; i < count; ++i) {
        MPI_Status* status = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
        const int error = give_in_order(&requests[i], status);
        if (status != MPI_STATUS_IGNORE) status->MPI_ERROR = error;
        if (error != MPI_SUCCESS) result = MPI_ERR_IN_STATUS;
    }
    return result;
}

int test_in_order(MPI_Request* request, int* flag, MPI_Status* status) {
    const Said said = hear_call();
    *flag = said.yes.value_or(true) && may_complete(*request) ? 1 : 0;
    return *flag != 0 ? give_in_order(request, status) : MPI_SUCCESS;
}

int test_all_in_order(int count, MPI_Request* requests, int* flag, MPI_Status* statuses) {
    const Said said = hear_call();
    *flag = said.yes.value_or(true) && std::all_of(requests, requests + count, may_complete) ? 1 : 0;
    return *flag != 0 ? wait_all_in_order(count, requests, statuses) : MPI_SUCCESS;
}

int any_in_order(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status) {
    const Said said = hear_call();
    if (open_among(count, requests) == 0)
        return flag != nullptr ? real.Testany(count, requests, index, flag, status)
                               : real.Waitany(count, requests, index, status);
    const auto found = first_among(count, requests);
    const bool yes = said.yes.value_or(true) && found;
    if (flag != nullptr) *flag = yes ? 1 : 0;
    *index = yes ? *found : MPI_UNDEFINED;
    if (yes) return give_in_order(&requests[*index], status);
    if (flag == nullptr)
        depart("another request's completion",
               "the wait for some that aren't completed by now in the record");
    return MPI_SUCCESS;
}

int some_in_order(int count, MPI_Request* requests, int* outcount, int* indices, MPI_Status* statuses,
                  bool test) {
    const Said said = hear_call();
    if (open_among(count, requests) == 0)
        return test ? real.Testsome(count, requests, outcount, indices, statuses)
                    : real.Waitsome(count, requests, outcount, indices, statuses);
    *outcount = 0;
    int result = MPI_SUCCESS;
    const std::size_t most = said.yes.value_or(true) ? std::max<std::size_t>(said.completions, 1) : 0;
    while (static_cast<std::size_t>(*outcount) < most) {
        const auto found = first_among(count, requests);
        if (!found) break;
        MPI_Status* status = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[*outcount];
        indices[(*outcount)++] = *found;
        const int error = give_in_order(&requests[*found], status);
        if (status != MPI_STATUS_IGNORE) status->MPI_ERROR = error;
        if (error != MPI_SUCCESS) result = MPI_ERR_IN_STATUS;
    }
    if (*outcount == 0 && !test)
        depart("another request's completion",
               "the wait for some that aren't completed by now in the record");
    return result;
}

}  // namespace cairn::mpi
