// What the ranks of a program print, made into lines.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

namespace cairn::mpi::debug {

class Output {
  public:
    // `line` without its end.
    using Print = std::function<void(int rank, bool error, const std::string& line)>;
    explicit Output(Print print) : print_(std::move(print)) {}

    void show(int rank, bool error, const std::string& text);
    // What has no end of a line yet.
    void show_rest();

  private:
    Print print_;
    std::map<std::pair<int, bool>, std::string> open_;
};

}  // namespace cairn::mpi::debug
