// The Debug Adapter Protocol as messages: what comes from the editor, and what goes to it.
// https://microsoft.github.io/debug-adapter-protocol/specification (1.65), base protocol.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "common/error.h"
#include "common/fd.h"

namespace cairn::mpi::debug::dap {

// Reads in a thread of its own, so that a request to pause is seen while a rank runs: it sets `interrupted`
// (mpi/debug/history.h) and sends SIGINT to the thread that has made the channel, until that one has come
// to it. The end of the input does so as well.
class Channel {
  public:
    // Neither descriptor is owned.
    Channel(int in, int out);
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;
    ~Channel();

    // Waits for the next request. Nothing: the editor has gone. Code usage: what came is no message.
    [[nodiscard]] Result<std::optional<nlohmann::json>> next();

    void answer(const nlohmann::json& request, nlohmann::json body = nlohmann::json::object());
    void refuse(const nlohmann::json& request, const std::string& why);
    void event(const char* name, nlohmann::json body = nlohmann::json::object());
    // To the editor's console. `category`: console, stdout, stderr.
    void print(const char* category, const std::string& text);

  private:
    void read_all();
    [[nodiscard]] bool take_messages();
    void interrupt_owner();
    void send(nlohmann::json message);

    int in_, out_;
    pthread_t owner_;
    Fd over_;  // an eventfd: the reader is to end
    std::string text_;
    int sequence_ = 0;

    std::mutex mutex_;  // of what follows
    std::condition_variable came_;
    std::deque<nlohmann::json> requests_;
    std::size_t pressing_ = 0;  // of them: requests for which whatever runs is given up
    bool ended_ = false;
    std::string problem_;

    std::thread reader_;  // the last, for it uses the others
};

}  // namespace cairn::mpi::debug::dap
