"""Dashboard: templates, template filters, styles and scripts, without third parties."""
