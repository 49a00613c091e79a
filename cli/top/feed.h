// What the session's coordinator says: asked once for each sample, and told of in between by events.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/top/figures.h"
#include "cli/top/generations.h"
#include "cli/top/sample.h"
#include "common/client.h"
#include "common/session.h"

namespace cairn::top {

class Feed {
  public:
    struct News {
        std::string text;
        bool bad = false;
    };

    explicit Feed(Session session) : session_(std::move(session)) {}

    // Asks. Where nobody answers, the last sample stays, with the reason in Sample::trouble; a coordinator
    // that has come since is found. Errors: only if `must_answer`.
    [[nodiscard]] Result<> refresh(Sample& sample, bool must_answer);

    // What has been told since. True: the page is another one.
    bool take_events(Sample& sample);
    // For the one who looks, in the order in which it came.
    [[nodiscard]] std::optional<News> take_news();

    // The answer is news.
    void ask_checkpoint();

    // For poll(2): those that events may come from.
    [[nodiscard]] std::vector<int> descriptors() const;

  private:
    [[nodiscard]] Result<> ask_all(Sample& sample);
    void subscribe();
    void hear(const nlohmann::json& event, Sample& sample);
    void forget();

    Session session_;
    std::optional<CoordinatorClient> questions_, events_, checkpoint_;
    bool may_subscribe_ = true;  // a relay's events are its root's
    std::vector<News> news_;
    Figures figures_;
    Generations generations_;
    std::optional<std::string> counted_from_;  // the checkpoint that dirty pages are counted from
};

}  // namespace cairn::top
