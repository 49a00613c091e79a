"""Growth as pictures: one for each thing that grows and each thing that is measured."""


def plot(folder, results, unit_of, title_of):
    """`results`: what grows -> [(point, system's name -> what is measured -> median)]. The files."""
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("bench/peers: --plots needs python3-matplotlib") from None
    matplotlib.use("svg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for axis, points in results.items():
        measures = sorted({m for _, systems in points for told in systems.values() for m in told})
        for measure in measures:
            figure, axes = pyplot.subplots(figsize=(7, 4.5))
            for system in sorted({name for _, systems in points for name in systems}):
                line = [(point, systems[system][measure]) for point, systems in points if measure in systems.get(system, {})]
                if line:
                    axes.plot(*zip(*line), marker="o", label=system)
            unit, factor = unit_of(measure)
            axes.yaxis.set_major_formatter(lambda value, _, factor=factor: f"{value / factor:g}")
            axes.set_xscale("symlog" if any(point == 0 for point, _ in points) else "log")
            axes.set_yscale("log")
            axes.set_xlabel(axis)
            axes.set_ylabel(unit)
            axes.set_title(title_of(measure))
            axes.grid(True, which="both", alpha=0.25)
            axes.legend()
            figure.tight_layout()
            files.append(folder / f"{axis.split(',')[0].replace(' ', '-')}-{measure}.svg")
            figure.savefig(files[-1])
            pyplot.close(figure)
    return files
