// A line on the terminal that is written over while something goes on; nothing where stderr is no terminal.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace cairn::control {

class Progress {
  public:
    explicit Progress(bool wanted);
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    ~Progress() { clear(); }

    void show(const nlohmann::json& event);
    void clear();

  private:
    bool terminal_ = false;
    bool dirty_ = false;
};

}  // namespace cairn::control
