// A look into a namespace, by a process that goes into it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "common/error.h"
#include "resources/namespace/schema.h"

namespace cairn::capture {

// What somebody in the namespace reads, part by part.
class Visit {
  public:
    // Enters the user namespace `user` (-1: is in it) and the namespace `space` of this type, and looks.
    [[nodiscard]] static Result<Visit> to(int user, int space, schema::NamespaceType type,
                                          const std::function<void(Visit&)>& look);
    // In there.
    void say(std::string_view part);
    void say_file(int fd);  // what can be read of it
    // Outside, in the same order; "" behind the last.
    [[nodiscard]] std::string next();
    [[nodiscard]] bool has_more() const { return at_ < text_.size(); }

  private:
    std::string text_;
    std::size_t at_ = 0;
};

}  // namespace cairn::capture
