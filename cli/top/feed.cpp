#include "cli/top/feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/own_region.h"
#include "common/human.h"
#include "common/printable.h"

namespace cairn::top {
namespace {

using nlohmann::json;

// One who doesn't answer at once is stopped, or waits for a disk: the page says so rather than stand still.
constexpr std::chrono::seconds feed_patience{2};

std::int64_t wall_clock_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

std::string words_of_done(const wire::CheckpointDone& done) {
    std::string text =
        fmt::format("checkpoint {}: {}, pause {}, durable after {}", done.generation, human_bytes(done.bytes),
                    human_duration(done.pause_ns), human_duration(done.total_ns));
    if (!done.notes.empty()) text += ", " + human_count(done.notes.size(), "note");
    return text;
}

}  // namespace

Result<> Feed::ask_all(Sample& sample) {
    if (!questions_) questions_ = TRY(CoordinatorClient::connect(session_));
    const auto status = TRY(questions_->ask({{"verb", "status"}}, {}, feed_patience));
    std::vector<ProcessRow> rows;
    const auto keep = [&](const json& event) {
        if (event.value("event", "") == wire::Process::name.value)
            rows.push_back({.process = wire::glean<wire::Process>(event)});
    };
    CHECK_OK(error_of(questions_->ask({{"verb", "list"}}, keep, feed_patience)));
    sample.status = wire::glean<wire::Status>(status);
    sample.processes = std::move(rows);
    const OwnRegion own(session_);
    for (ProcessRow& row : sample.processes) row.here = own.has(row.process);
    if (!sample.status.checkpoint) sample.progress.reset();
    return {};
}

void Feed::forget() {
    questions_.reset();
    events_.reset();
    checkpoint_.reset();
}

Result<> Feed::refresh(Sample& sample, bool must_answer) {
    sample.now_ns = wall_clock_ns();
    auto asked = ask_all(sample);
    // A connection to a coordinator that has ended meanwhile tells nothing of its successor.
    if (!asked && asked.error().code == ExitCode::no_coordinator) {
        forget();
        asked = ask_all(sample);
    }
    if (!asked) {
        forget();
        if (must_answer) return asked;
        sample.trouble = asked.error().code == ExitCode::no_coordinator
                             ? "no coordinator: programs go on; `cairn coordinator` finds them"
                             : asked.error().what;
        sample.status.checkpoint.reset();
        sample.progress.reset();
    } else {
        sample.trouble.clear();
        subscribe();
    }
    const auto& last = sample.status.last;
    // Nobody has told us when the programs went on, so it is counted from now.
    if (last && counted_from_ && *counted_from_ != last->directory) figures_.begin_counting();
    if (last || !counted_from_) counted_from_ = last ? last->directory : std::string();
    figures_.fill(sample.processes);
    sample.generations = generations_.look(sample.status.ckptdir, sample.status.cid);
    sample.next = estimate(sample);
    return {};
}

void Feed::subscribe() {
    if (events_ || !may_subscribe_) return;
    auto client = CoordinatorClient::connect(session_);
    if (!client) return;
    const auto done = client->ask({{"verb", "subscribe"}}, {}, feed_patience);
    may_subscribe_ = done || done.error().code != ExitCode::refused;
    if (done) events_ = std::move(*client);
}

void Feed::hear(const json& event, Sample& sample) {
    const std::string kind = event.value("event", "");
    if (kind == wire::Phase::name.value) {
        const auto phase = wire::glean<wire::Phase>(event);
        auto& running = sample.status.checkpoint;
        if (!running) running.emplace();
        running->phase = phase.phase;
        if (phase.generation) running->generation = *phase.generation;
        if (phase.directory) running->directory = *phase.directory;
        // The programs have gone on; what they write from here on the images don't have.
        if (phase.phase == "write") {
            figures_.begin_counting();
            counted_from_ = running->directory;
        }
    } else if (kind == wire::Progress::name.value) {
        sample.progress = wire::glean<wire::Progress>(event);
    } else if (kind == wire::Note::name.value) {
        news_.push_back({wire::glean<wire::Note>(event).text});
    } else if (kind == wire::Failed::name.value) {
        sample.status.checkpoint.reset();
        news_.push_back({"checkpoint given up: " + wire::glean<wire::Failed>(event).reason, true});
    } else if (kind == "done" && event.contains("directory")) {
        const auto done = wire::glean<wire::CheckpointDone>(event);
        sample.status.checkpoint.reset();
        sample.status.last = done;
        counted_from_ = done.directory;
        news_.push_back({words_of_done(done)});
    }
}

bool Feed::take_events(Sample& sample) {
    bool changed = false;
    for (auto* client : {&events_, &checkpoint_}) {
        while (*client) {
            const auto event = (*client)->next(std::chrono::milliseconds(0));
            if (event && !*event) break;
            changed = true;
            if (!event) {
                client->reset();
                break;
            }
            // What the asker is told, and everybody is as well, is said once.
            const std::string kind = (*event)->value("event", "");
            const bool is_answer = client == &checkpoint_;
            if (is_answer && kind == wire::Failed::name.value && !events_) hear(**event, sample);
            if (is_answer && kind == "queued") news_.push_back({"waits: " + (*event)->value("reason", "")});
            if (!is_answer) hear(**event, sample);
            if (is_answer && (kind == "done" || kind == wire::Failed::name.value)) {
                if (!events_ && kind == "done") hear(**event, sample);
                client->reset();
            }
        }
    }
    return changed;
}

std::optional<Feed::News> Feed::take_news() {
    if (news_.empty()) return std::nullopt;
    auto last = std::move(news_.back());
    news_.clear();
    return last;
}

void Feed::ask_checkpoint() {
    if (checkpoint_) return news_.push_back({"a checkpoint has been asked for already"});
    auto client = CoordinatorClient::connect(session_);
    if (client)
        if (auto sent = client->send(pack(wire::AskCheckpoint{})); !sent)
            client = std::unexpected(std::move(sent.error()));
    if (!client) return news_.push_back({client.error().what, true});
    checkpoint_ = std::move(*client);
    news_.push_back({"a checkpoint is asked for"});
}

std::vector<int> Feed::descriptors() const {
    std::vector<int> all;
    for (const auto* client : {&events_, &checkpoint_})
        if (*client) all.push_back((*client)->fd());
    return all;
}

}  // namespace cairn::top
