"""Pages for people: templates, styles and scripts, all served by this process."""
