"""What Alembic runs: the migrations on the connection that `database` opened."""

from alembic import context

from arena_kit.voting.database import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
