// Requests that are waited for or tested. A test says in replay what it said; where it said yes, or one of
// several was first, replay waits for that one.
#include "mpi/interposer/complete.h"

#include <vector>

#include "mpi/interposer/another_first.h"
#include "mpi/interposer/early.h"
#include "mpi/interposer/handlers.h"
#include "mpi/interposer/outcomes.h"

namespace cairn::mpi {

Posted* known(MPI_Request request) {
    Posted* posted = session->requests.find(request);
    return posted != nullptr && posted->open() ? posted : nullptr;
}

Buffer buffer_of(const Posted& posted) {
    return {posted.buffer, posted.count, posted.type};
}

void completed(std::uint64_t key, const MPI_Status& status, int error, bool seen) {
    Session& s = *session;
    if (s.tracer) s.tracer->closed(key, status);
    Posted* posted = s.requests.find(key);
    if (posted == nullptr || !posted->open()) return;
    const bool receive = !posted->send && !posted->collective;
    if (s.storing && receive) store_received(error, status, buffer_of(*posted));
    if (s.storing && posted->collective) store_finished(key);
    if (receive) complete_receive(*posted, status, seen);
    if (!posted->persistent && (s.storing || s.alone)) drop(posted->type);
    if (posted->persistent) {
        posted->active = false;
        posted->has_inner = false;
        posted->dead = false;
    } else {
        session->requests.erase(key);
    }
}

namespace {

bool open(MPI_Request request) {
    if (request == MPI_REQUEST_NULL) return false;
    const Posted* posted = session->requests.find(request);
    return posted == nullptr || posted->open();
}

// How many of them are open; `only`: the last of them.
int open(int count, const MPI_Request* requests, int& only) {
    int found = 0;
    for (int i = 0; i < count; ++i)
        if (open(requests[i])) {
            ++found;
            only = i;
        }
    return found;
}

// Alone: as the record has it.
int feed_one(MPI_Request* request, MPI_Status* status) {
    Posted* posted = known(*request);
    // Nothing, what never goes anywhere, and generalized requests.
    if (posted == nullptr) return real.Wait(request, status);
    const std::uint64_t key = bits(*request);
    // What went to nobody is no event.
    if (session->tracer && session->tracer->will_come(key)) stand_within();
    if (posted->dead && !posted->cancel) record_ends();
    MPI_Status own;
    MPI_Status* seen = status == MPI_STATUS_IGNORE ? &own : status;
    clear_status(*seen);
    int error = MPI_SUCCESS;
    const bool receive = !posted->send && !posted->collective;
    const std::uint32_t number = noting ? session->tracer->request_number(key) : 0;
    if (posted->collective) fed_finished(key);
    if (receive) {
        const WantedMessage asked{posted->any_source ? MPI_ANY_SOURCE : posted->source,
                                  posted->any_tag ? MPI_ANY_TAG : posted->tag, posted->matched};
        error = noting ? feed_noted(number, *posted, *seen, asked)
                       : fed_received(posted->comm, *seen, buffer_of(*posted), asked);
    }
    if (noting) note_completion(number, receive, error != MPI_ERR_PENDING);
    if (error == MPI_ERR_PENDING) return error;
    const bool persistent = posted->persistent;
    completed(key, *seen, error);
    if (!persistent) real.Request_free(request);
    return error;
}

int wait_one(MPI_Request* request, MPI_Status* status) {
    if (session->alone) return feed_one(request, status);
    Posted* posted = known(*request);
    if (posted == nullptr && !session->tracer) return real.Wait(request, status);
    if (posted != nullptr && posted->dead && !posted->cancel) record_ends();
    MPI_Status own;
    MPI_Status* seen = status == MPI_STATUS_IGNORE ? &own : status;
    const std::uint64_t key = bits(*request);
    const bool truncated = posted != nullptr && posted->truncated;
    const MPI_Comm comm = truncated ? posted->comm : MPI_COMM_NULL;
    int result = real.Wait(posted != nullptr && posted->has_inner ? &posted->inner : request, seen);
    if (truncated && result == MPI_SUCCESS) result = MPI_ERR_TRUNCATE;
    completed(key, *seen, result);
    if (truncated) static_cast<void>(raise_truncated(comm));
    return result;
}

// Requests as the MPI must see them, with statuses, and back.
class Many {
  public:
    Many(int count, MPI_Request* requests, MPI_Status* statuses)
        : count_(static_cast<std::size_t>(count)), requests_(requests), statuses_(statuses) {
        Requests& all = session->requests;
        if (all.size() == 0 && !session->tracer) return;
        for (std::size_t i = 0; i < count_; ++i) {
            Posted* posted = known(requests[i]);
            const bool traced = session->tracer && requests[i] != MPI_REQUEST_NULL;
            if (posted == nullptr && !traced) continue;
            if (keys_.empty()) keys_.resize(count_, 0);
            keys_[i] = bits(requests[i]);
            if (posted == nullptr) continue;
            if (posted->dead && !posted->cancel) waits_for_dead_ = true;
            if (posted->truncated) {
                truncated_ = true;
                truncated_at_ = posted->comm;
            }
            if (!posted->has_inner) continue;
            if (real_.empty()) real_.assign(requests, requests + count_);
            real_[i] = posted->inner;
        }
        if (!keys_.empty() && statuses == MPI_STATUSES_IGNORE) own_.resize(count_);
    }
    [[nodiscard]] bool waits_for_dead() const { return waits_for_dead_; }
    MPI_Request* requests() { return real_.empty() ? requests_ : real_.data(); }
    MPI_Status* statuses() { return own_.empty() ? statuses_ : own_.data(); }
    // All of them have been completed, or those without a status MPI_ERR_PENDING.
    int complete(int result) {
        if (truncated_) result = with_errors(result);
        for (std::size_t i = 0; i < real_.size(); ++i) {
            const Posted* posted = keys_[i] != 0 ? session->requests.find(keys_[i]) : nullptr;
            if (posted == nullptr || !posted->has_inner) requests_[i] = real_[i];
        }
        for (std::size_t i = 0; i < keys_.size(); ++i) {
            if (keys_[i] == 0) continue;
            const int error = error_of(result, statuses()[i]);
            if (error == MPI_ERR_PENDING) {
                const Posted* posted = session->requests.find(keys_[i]);
                if (session->storing && posted != nullptr && !posted->send && !posted->collective)
                    store_result(error);
                continue;
            }
            completed(keys_[i], statuses()[i], error);
        }
        if (truncated_) ::PMPI_Comm_call_errhandler(truncated_at_, result);
        return result;
    }
    // The i-th has been, its status is the k-th.
    void complete_one(int result, int i, int k) {
        if (!keys_.empty() && keys_[static_cast<std::size_t>(i)] != 0)
            completed(keys_[static_cast<std::size_t>(i)], statuses()[k], error_of(result, statuses()[k]));
    }

  private:
    // What the MPI would have said of messages that were taken out early.
    int with_errors(int result) {
        for (std::size_t i = 0; i < count_; ++i) {
            if (result == MPI_SUCCESS) statuses()[i].MPI_ERROR = MPI_SUCCESS;
            const Posted* posted = keys_[i] != 0 ? session->requests.find(keys_[i]) : nullptr;
            if (posted != nullptr && posted->truncated) statuses()[i].MPI_ERROR = MPI_ERR_TRUNCATE;
        }
        return MPI_ERR_IN_STATUS;
    }
    static int error_of(int result, const MPI_Status& status) {
        return result == MPI_ERR_IN_STATUS ? status.MPI_ERROR : result;
    }

    std::size_t count_;
    MPI_Request* requests_;
    MPI_Status* statuses_;
    std::vector<std::uint64_t> keys_;  // 0: nothing is known of it
    std::vector<MPI_Request> real_;
    std::vector<MPI_Status> own_;
    bool waits_for_dead_ = false;
    bool truncated_ = false;
    MPI_Comm truncated_at_ = MPI_COMM_NULL;
};

// One after the other, as their completions were recorded.
int feed_all(int count, MPI_Request* requests, MPI_Status* statuses) {
    int result = MPI_SUCCESS;
    std::vector<int> errors;
    for (int i = 0; i < count; ++i) {
        errors.push_back(
            feed_one(&requests[i], statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i]));
        if (errors.back() != MPI_SUCCESS) result = MPI_ERR_IN_STATUS;
    }
    for (int i = 0; i < count && result != MPI_SUCCESS && statuses != MPI_STATUSES_IGNORE; ++i)
        statuses[i].MPI_ERROR = errors[static_cast<std::size_t>(i)];
    return result;
}

int wait_all(int count, MPI_Request* requests, MPI_Status* statuses) {
    if (session->alone) return feed_all(count, requests, statuses);
    Many many(count, requests, statuses);
    if (many.waits_for_dead()) record_ends();
    return many.complete(real.Waitall(count, many.requests(), many.statuses()));
}

// Waits for those that were complete in the record, in its order.
int wait_some(MPI_Request* requests, int outcount, const int* indices, MPI_Status* statuses) {
    int result = MPI_SUCCESS;
    for (int k = 0; k < outcount; ++k) {
        MPI_Status* status = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[k];
        const int one = wait_one(&requests[indices[k]], status);
        if (status != MPI_STATUS_IGNORE) status->MPI_ERROR = one;
        if (one != MPI_SUCCESS) result = MPI_ERR_IN_STATUS;
    }
    return result;
}

void some_came_to(int outcount, const int* indices, int opened) {
    if (opened < 2) return;
    record_number(outcount);
    for (int k = 0; k < outcount; ++k) record_number(indices[k]);
}

void recorded_some(int* outcount, int* indices, int opened, int only) {
    *outcount = 1;
    indices[0] = only;
    if (opened < 2) return;
    *outcount = static_cast<int>(recorded_number());
    for (int k = 0; k < *outcount; ++k) indices[k] = static_cast<int>(recorded_number());
}

void begin_completion(const Call& call) {
    begin(call, MPI_PROC_NULL, MPI_COMM_WORLD);
}

// A request of the record's that isn't there: another program than the record's.
void check_index(const Call& call, int index, int count, const MPI_Request* requests) {
    if (index >= 0 && index < count && open(requests[index])) return;
    depart(fmt::format("{} completing request {}", name(call.fn), index),
           fmt::format("{} of {} requests, of which that one is not open", name(call.fn), count));
}

bool any_through(int count, const MPI_Request* requests) {
    for (int i = 0; i < count; ++i)
        if (open(requests[i]) && is_through(requests[i])) return true;
    return false;
}

}  // namespace

int on_Wait(Call call, MPI_Request* request, MPI_Status* status) {
    const Inside guard;
    begin_completion(call);
    if (session->tracer) session->tracer->stands_at(1, request, false);
    if (in_another_order()) [[unlikely]]
        return wait_in_order(request, status);
    if (threaded() && !replaying()) {
        MPI_Status own;
        MPI_Status* seen = status == MPI_STATUS_IGNORE ? &own : status;
        const std::uint64_t key = bits(*request);
        const int result = wait_for(request, seen);
        completed(key, *seen, result);
        return result;
    }
    next_step();
    return wait_one(request, status);
}

int on_Waitall(Call call, int count, MPI_Request* requests, MPI_Status* statuses) {
    const Inside guard;
    begin_completion(call);
    if (session->tracer) session->tracer->stands_at(count, requests, false);
    if (in_another_order()) [[unlikely]]
        return wait_all_in_order(count, requests, statuses);
    if (threaded() && !replaying()) {
        Many many(count, requests, statuses);
        int through = 0;
        wait_until([&] {
            while (through < count && is_through(requests[through])) ++through;
            return through == count;
        });
        return many.complete(real.Waitall(count, many.requests(), many.statuses()));
    }
    next_step();
    return wait_all(count, requests, statuses);
}

int on_Test(Call call, MPI_Request* request, int* flag, MPI_Status* status) {
    const Inside guard;
    begin_completion(call);
    if (session->tracer) session->tracer->by_chance();
    if (in_another_order()) [[unlikely]]
        return test_in_order(request, flag, status);
    if (!open(*request)) return real.Test(request, flag, status);
    if (replaying()) {
        *flag = recorded_answer() ? 1 : 0;
        if (*flag != 0) return wait_one(request, status);
        let_others_run();
        return MPI_SUCCESS;
    }
    MPI_Status own;
    MPI_Status* seen = status == MPI_STATUS_IGNORE ? &own : status;
    const std::uint64_t key = bits(*request);
    *flag = 0;
    const int result = real.Test(request, flag, seen);
    record_answer(*flag != 0);
    if (*flag != 0)
        completed(key, *seen, result);
    else
        let_others_run();
    return result;
}

int on_Testall(Call call, int count, MPI_Request* requests, int* flag, MPI_Status* statuses) {
    const Inside guard;
    begin_completion(call);
    if (session->tracer) session->tracer->by_chance();
    if (in_another_order()) [[unlikely]]
        return test_all_in_order(count, requests, flag, statuses);
    int only = 0;
    if (open(count, requests, only) == 0) return real.Testall(count, requests, flag, statuses);
    if (replaying()) {
        *flag = recorded_answer() ? 1 : 0;
        if (*flag != 0) return wait_all(count, requests, statuses);
        let_others_run();
        return MPI_SUCCESS;
    }
    Many many(count, requests, statuses);
    *flag = 0;
    const int result = real.Testall(count, many.requests(), flag, many.statuses());
    record_answer(*flag != 0);
    if (*flag != 0)
        many.complete(result);
    else
        let_others_run();
    return result;
}

int on_Waitany(Call call, int count, MPI_Request* requests, int* index, MPI_Status* status) {
    const Inside guard;
    begin_completion(call);
    const Offered offer(count, requests);
    int only = 0;
    const int opened = open(count, requests, only);
    if (session->tracer && opened > 1) session->tracer->by_chance();
    if (session->tracer) session->tracer->stands_at(count, requests, true);
    if (in_another_order()) [[unlikely]]
        return any_in_order(count, requests, index, nullptr, status);
    if (opened == 0) return real.Waitany(count, requests, index, status);
    if (replaying()) {
        next_step();
        *index = opened > 1 ? static_cast<int>(recorded_number()) : only;
        check_index(call, *index, count, requests);
        return wait_one(&requests[*index], status);
    }
    MPI_Status own;
    MPI_Status* seen = status == MPI_STATUS_IGNORE ? &own : status;
    Many many(count, requests, seen);
    if (threaded()) wait_until([&] { return any_through(count, requests); });
    const int result = real.Waitany(count, requests, index, seen);
    if (*index < 0 || *index >= count) return result;
    if (opened > 1) record_number(*index);
    many.complete_one(result, *index, 0);
    return result;
}

int on_Testany(Call call, int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status) {
    const Inside guard;
    begin_completion(call);
    if (session->tracer) session->tracer->by_chance();
    const Offered offer(count, requests);
    if (in_another_order()) [[unlikely]]
        return any_in_order(count, requests, index, flag, status);
    int only = 0;
    const int opened = open(count, requests, only);
    if (opened == 0) return real.Testany(count, requests, index, flag, status);
    if (replaying()) {
        *flag = recorded_answer() ? 1 : 0;
        *index = MPI_UNDEFINED;
        if (*flag == 0) {
            let_others_run();
            return MPI_SUCCESS;
        }
        *index = opened > 1 ? static_cast<int>(recorded_number()) : only;
        check_index(call, *index, count, requests);
        return wait_one(&requests[*index], status);
    }
    MPI_Status own;
    MPI_Status* seen = status == MPI_STATUS_IGNORE ? &own : status;
    Many many(count, requests, seen);
    *flag = 0;
    *index = MPI_UNDEFINED;
    const int result = real.Testany(count, requests, index, flag, seen);
    const bool yes = *flag != 0 && *index >= 0 && *index < count;
    record_answer(yes);
    if (!yes) {
        let_others_run();
        return result;
    }
    if (opened > 1) record_number(*index);
    many.complete_one(result, *index, 0);
    return result;
}

int on_Waitsome(Call call, int count, MPI_Request* requests, int* outcount, int* indices,
                MPI_Status* statuses) {
    const Inside guard;
    begin_completion(call);
    const Offered offer(count, requests);
    int only = 0;
    const int opened = open(count, requests, only);
    if (session->tracer && opened > 1) session->tracer->by_chance();
    if (session->tracer) session->tracer->stands_at(count, requests, true);
    if (in_another_order()) [[unlikely]]
        return some_in_order(count, requests, outcount, indices, statuses, false);
    if (opened == 0) return real.Waitsome(count, requests, outcount, indices, statuses);
    if (replaying()) {
        next_step();
        recorded_some(outcount, indices, opened, only);
        for (int k = 0; k < *outcount; ++k) check_index(call, indices[k], count, requests);
        return wait_some(requests, *outcount, indices, statuses);
    }
    Many many(count, requests, statuses);
    if (threaded()) wait_until([&] { return any_through(count, requests); });
    const int result = real.Waitsome(count, requests, outcount, indices, many.statuses());
    if (*outcount < 0) return result;
    some_came_to(*outcount, indices, opened);
    for (int k = 0; k < *outcount; ++k) many.complete_one(result, indices[k], k);
    return result;
}

int on_Testsome(Call call, int count, MPI_Request* requests, int* outcount, int* indices,
                MPI_Status* statuses) {
    const Inside guard;
    begin_completion(call);
    if (session->tracer) session->tracer->by_chance();
    const Offered offer(count, requests);
    if (in_another_order()) [[unlikely]]
        return some_in_order(count, requests, outcount, indices, statuses, true);
    int only = 0;
    const int opened = open(count, requests, only);
    if (opened == 0) return real.Testsome(count, requests, outcount, indices, statuses);
    if (replaying()) {
        if (!recorded_answer()) {
            *outcount = 0;
            let_others_run();
            return MPI_SUCCESS;
        }
        recorded_some(outcount, indices, opened, only);
        for (int k = 0; k < *outcount; ++k) check_index(call, indices[k], count, requests);
        return wait_some(requests, *outcount, indices, statuses);
    }
    Many many(count, requests, statuses);
    *outcount = 0;
    const int result = real.Testsome(count, requests, outcount, indices, many.statuses());
    const bool yes = *outcount > 0;
    record_answer(yes);
    if (!yes) {
        let_others_run();
        return result;
    }
    some_came_to(*outcount, indices, opened);
    for (int k = 0; k < *outcount; ++k) many.complete_one(result, indices[k], k);
    return result;
}

int on_Request_get_status(Call call, MPI_Request request, int* flag, MPI_Status* status) {
    const Inside guard;
    begin_completion(call);
    if (session->tracer) session->tracer->by_chance();
    if (in_another_order()) [[unlikely]]
        depart_in_another_order("MPI_Request_get_status");
    if (!open(request)) return real.Request_get_status(request, flag, status);
    if (replaying()) {
        *flag = 0;
        if (!recorded_answer()) {
            let_others_run();
            return MPI_SUCCESS;
        }
        Posted* posted = known(request);
        if (posted != nullptr && posted->dead && !posted->cancel) record_ends();
        if (session->alone && posted != nullptr) {
            *flag = 1;
            MPI_Status own;
            MPI_Status* seen = status == MPI_STATUS_IGNORE ? &own : status;
            clear_status(*seen);
            if (posted->send || posted->collective) return MPI_SUCCESS;
            return fed_received(posted->comm, *seen, buffer_of(*posted), {.by_itself = true});
        }
        const MPI_Request asked = posted != nullptr && posted->has_inner ? posted->inner : request;
        int result = MPI_SUCCESS;
        while (*flag == 0 && result == MPI_SUCCESS) {
            result = real.Request_get_status(asked, flag, status);
            if (*flag == 0) let_others_run();
        }
        return result;
    }
    *flag = 0;
    MPI_Status own;
    MPI_Status* seen = status == MPI_STATUS_IGNORE ? &own : status;
    const int result = real.Request_get_status(request, flag, seen);
    record_answer(*flag != 0);
    // The operation is complete, so its data may be looked at before the request is.
    if (const Posted* posted = known(request);
        session->storing && *flag != 0 && posted != nullptr && !posted->send && !posted->collective)
        store_received(result, *seen, buffer_of(*posted));
    if (*flag == 0) let_others_run();
    return result;
}

}  // namespace cairn::mpi
